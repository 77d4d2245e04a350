#include "recording/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/json_write.h"
#include "recording/formats.h"

#define SLOTS 120

enum { PYTHON, NATIVE, REST };

struct leaf {
    uint32_t node, thread;
    uint16_t slot, span;
    uint8_t did;
    uint64_t ns;
};

/* Nodes as the page has them: some of the recording's, and rests. */
struct page {
    const struct pb_recording *r;
    struct pb_arena arena;
    uint32_t *shown;  /* by node of the recording: its number in the page; 0: it has none */
    uint32_t *rest;   /* by node of the recording: the number of the rest below it; 0: none */
    uint32_t *hidden; /* by node of the recording: how many nodes its rest stands for */
    uint32_t *nodes;  /* by number in the page: node of the recording, for a rest its parent's */
    bool *is_rest;
    size_t n; /* nodes of the page, with the root */
    uint32_t *threads; /* by thread of the recording: its number in the page, shifted by one */
    size_t nthreads;
    uint64_t slot_ns;
    uint32_t below; /* node that is looked at; 0: all */
};

static bool is_below(const struct pb_stacks *s, uint32_t node, uint32_t top)
{
    while (node > top)
        node = s->nodes[node].parent;
    return node == top;
}

static int by_size(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

    return (a < b) - (a > b);
}

/*
 * The weight from which on nodes are shown, and how many have just that weight, so that there are
 * max of them. A caller has no less weight than its callees and comes first: it is shown with them.
 */
static uint64_t threshold(const uint64_t *weight, size_t n, size_t max, struct pb_arena *a,
                          size_t *ret_equal)
{
    uint64_t *sorted;
    size_t more = 0;

    *ret_equal = SIZE_MAX;
    if (!max || n <= max)
        return 1;
    sorted = PB_NEW_N(a, uint64_t, n);
    memcpy(sorted, weight, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    while (sorted[more] > sorted[max])
        more++;
    *ret_equal = max - more;
    return sorted[max] ? sorted[max] : 1;
}

/* Of each node the larger of now and before, 0 where it is not looked at. */
static uint64_t *node_weights(const struct page *p, struct pb_arena *a)
{
    size_t n = p->r->stacks.nnodes;
    uint64_t *self = PB_NEW_N(a, uint64_t, n), *total = PB_NEW_N(a, uint64_t, n);
    uint64_t *old_self = PB_NEW_N(a, uint64_t, n), *old = PB_NEW_N(a, uint64_t, n);

    pb_recording_sums(p->r, self, total);
    pb_recording_sums_before(p->r, old_self, old);
    for (uint32_t i = 0; i < n; i++) {
        total[i] = old[i] > total[i] ? old[i] : total[i];
        if (p->below && !is_below(&p->r->stacks, i, p->below))
            total[i] = 0;
    }
    return total;
}

static void add_node(struct page *p, uint32_t node, bool rest)
{
    if (rest)
        p->rest[node] = (uint32_t)p->n;
    else
        p->shown[node] = (uint32_t)p->n;
    p->is_rest[p->n] = rest;
    p->nodes[p->n++] = node;
}

/* Callers of what is looked at come along; the root is number 0. */
static void choose_nodes(struct page *p, size_t max)
{
    const struct pb_stacks *s = &p->r->stacks;
    struct pb_arena a = PB_ARENA_INIT;
    size_t equal;
    uint64_t *weight = node_weights(p, &a), least = threshold(weight, s->nnodes, max, &a, &equal);
    bool *caller = PB_NEW_N(&a, bool, s->nnodes);

    for (uint32_t n = p->below; n; n = s->nodes[n].parent)
        caller[n] = true;
    p->shown = PB_NEW_N(&p->arena, uint32_t, s->nnodes);
    p->rest = PB_NEW_N(&p->arena, uint32_t, s->nnodes);
    p->hidden = PB_NEW_N(&p->arena, uint32_t, s->nnodes);
    p->nodes = PB_NEW_N(&p->arena, uint32_t, s->nnodes * 2);
    p->is_rest = PB_NEW_N(&p->arena, bool, s->nnodes * 2);
    p->n = 1;
    for (uint32_t i = 1; i < s->nnodes; i++) {
        uint32_t up = s->nodes[i].parent;

        if (caller[i] || weight[i] > least || (weight[i] == least && equal > 0)) {
            equal -= weight[i] == least && equal > 0;
            add_node(p, i, false);
            continue;
        }
        while (up && !p->shown[up])
            up = s->nodes[up].parent;
        if (weight[i])
            p->hidden[up]++;
    }
    for (uint32_t i = 0; i < s->nnodes; i++)
        if (p->hidden[i])
            add_node(p, i, true);
    pb_arena_finish(&a);
}

/* The page's number for a node; false: it is not looked at. */
static bool place(const struct page *p, uint32_t node, uint32_t *ret)
{
    const struct pb_stacks *s = &p->r->stacks;

    if (p->below && !is_below(s, node, p->below))
        return false;
    *ret = p->shown[node];
    if (!node || p->shown[node])
        return true;
    while (node && !p->shown[node])
        node = s->nodes[node].parent;
    *ret = p->rest[node];
    return true;
}

static uint32_t thread_of(struct page *p, uint32_t thread)
{
    if (!p->threads[thread])
        p->threads[thread] = (uint32_t)++p->nthreads;
    return p->threads[thread] - 1;
}

static int by_key(const void *x, const void *y)
{
    const struct leaf *a = x, *b = y;
    uint64_t ka = (uint64_t)a->node << 32 | a->thread, kb = (uint64_t)b->node << 32 | b->thread;
    uint64_t ta = (uint64_t)a->slot << 32 | (uint64_t)a->span << 8 | a->did;
    uint64_t tb = (uint64_t)b->slot << 32 | (uint64_t)b->span << 8 | b->did;

    return ka != kb ? (ka < kb ? -1 : 1) : (ta > tb) - (ta < tb);
}

static size_t gather(struct page *p, const struct pb_rec_sample *from, size_t n, double scale,
                     bool timed, struct leaf *out)
{
    size_t count = 0, merged = 0;

    for (size_t i = 0; i < n; i++) {
        const struct pb_rec_sample *e = &from[i];
        struct leaf l = {.did = (uint8_t)(e->on_cpu | e->holds_gil << 1 | e->waits_gil << 2),
                         .ns = (uint64_t)((double)e->weight_ns * scale + 0.5)};

        if (!place(p, e->node, &l.node))
            continue;
        l.thread = thread_of(p, e->thread);
        if (timed && p->slot_ns) {
            uint64_t first = e->at_ns / p->slot_ns, span = e->weight_ns / p->slot_ns;

            l.slot = (uint16_t)(first < SLOTS ? first : SLOTS - 1);
            l.span = (uint16_t)(l.slot + span < SLOTS ? span : SLOTS - 1u - l.slot);
        }
        out[count++] = l;
    }
    qsort(out, count, sizeof *out, by_key);
    for (size_t i = 0; i < count; i++) {
        if (merged && by_key(&out[merged - 1], &out[i]) == 0)
            out[merged - 1].ns += out[i].ns;
        else
            out[merged++] = out[i];
    }
    return merged;
}

static void put_leaves(struct pb_buf *out, const char *key, const struct leaf *v, size_t n)
{
    pb_buf_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++)
        pb_buf_printf(out, "%s%u,%u,%u,%llu", i ? "," : "", v[i].node, v[i].thread, v[i].did,
                      (unsigned long long)(v[i].ns / 1000));
    pb_buf_putc(out, ']');
}

static void put_slots(const struct page *p, struct pb_buf *out, const struct leaf *v, size_t n)
{
    bool spans = false;

    pb_buf_printf(out, ",\"slots\":{\"n\":%d,\"ms\":%.6g,\"start\":%lld},\"slot\":[", SLOTS,
                  (double)p->slot_ns / 1e6, (long long)(p->r->started_ns / 1000000));
    for (size_t i = 0; i < n; i++) {
        pb_buf_printf(out, "%s%u", i ? "," : "", v[i].slot);
        spans |= v[i].span > 0;
    }
    pb_buf_putc(out, ']');
    if (!spans)
        return;
    pb_buf_puts(out, ",\"span\":[");
    for (size_t i = 0; i < n; i++)
        pb_buf_printf(out, "%s%u", i ? "," : "", v[i].span);
    pb_buf_putc(out, ']');
}

static void put_frame(struct pb_buf *out, const struct pb_prof_frame *f, int kind)
{
    pb_buf_putc(out, '[');
    pb_json_string(out, f->func);
    pb_buf_putc(out, ',');
    pb_json_string(out, f->file);
    pb_buf_printf(out, ",%d,%d]", f->lineno, kind);
}

/* Frames that nodes of the page have, and the nodes themselves. */
static void put_nodes(struct page *p, struct pb_buf *out)
{
    const struct pb_stacks *s = &p->r->stacks;
    uint32_t *number = PB_NEW_N(&p->arena, uint32_t, s->nframes + 1); /* shifted by one */
    uint32_t *frame = PB_NEW_N(&p->arena, uint32_t, p->n + 1);
    struct pb_buf source = PB_BUF_INIT;
    uint32_t count = 0;

    pb_buf_puts(out, ",\"frames\":[");
    for (size_t i = 1; i < p->n; i++) {
        uint32_t f = s->nodes[p->nodes[i]].frame;

        if (p->is_rest[i]) {
            char text[64];

            snprintf(text, sizeof text, "%u more", p->hidden[p->nodes[i]]);
            pb_buf_puts(out, count ? "," : "");
            put_frame(out, &(struct pb_prof_frame){text, "", 0, false}, REST);
            frame[i] = count++;
        } else if (number[f]) {
            frame[i] = number[f] - 1;
        } else {
            pb_buf_puts(out, count ? "," : "");
            put_frame(out, &s->frames[f], s->frames[f].native ? NATIVE : PYTHON);
            if (p->r->source && f < p->r->nsource && p->r->source[f]) {
                pb_buf_printf(&source, "%s\"%u\":", source.len ? "," : "", count);
                pb_json_string(&source, p->r->source[f]);
            }
            frame[i] = count;
            number[f] = ++count;
        }
    }
    pb_buf_puts(out, "],\"parent\":[0");
    for (size_t i = 1; i < p->n; i++)
        pb_buf_printf(out, ",%u", p->is_rest[i] ? p->shown[p->nodes[i]]
                                                : p->shown[s->nodes[p->nodes[i]].parent]);
    pb_buf_puts(out, "],\"frame\":[-1");
    for (size_t i = 1; i < p->n; i++)
        pb_buf_printf(out, ",%u", frame[i]);
    pb_buf_putc(out, ']');
    if (source.len)
        pb_buf_printf(out, ",\"source\":{%s}", source.data);
    pb_buf_finish(&source);
}

static void put_more(struct page *p, struct pb_buf *out)
{
    bool first = true;

    for (size_t i = 1; i < p->n; i++) {
        if (!p->is_rest[i])
            continue;
        pb_buf_printf(out, "%s\"%u\":\"%016llx\"", first ? ",\"more\":{" : ",",
                      p->shown[p->nodes[i]],
                      (unsigned long long)p->r->stacks.nodes[p->nodes[i]].id);
        first = false;
    }
    if (!first)
        pb_buf_putc(out, '}');
}

static void put_threads(struct page *p, struct pb_buf *out)
{
    const char **names = PB_NEW_N(&p->arena, const char *, p->nthreads + 1);

    for (size_t i = 0; i < p->r->nthreads; i++)
        if (p->threads[i])
            names[p->threads[i] - 1] = pb_format_thread(p->r, i, &p->arena);
    pb_buf_puts(out, ",\"threads\":[");
    for (size_t i = 0; i < p->nthreads; i++) {
        pb_buf_puts(out, i ? "," : "");
        pb_json_string(out, names[i]);
    }
    pb_buf_putc(out, ']');
}

static bool find_id(const struct pb_stacks *s, uint64_t id, uint32_t *ret)
{
    for (uint32_t i = 0; id && i < s->nnodes; i++)
        if (s->nodes[i].id == id) {
            *ret = i;
            return true;
        }
    return !id;
}

bool pb_page_json(const struct pb_recording *r, const struct pb_page_opts *o, struct pb_buf *out)
{
    struct page p = {.r = r};
    struct leaf *now, *before;
    size_t n, nbefore;

    if (!find_id(&r->stacks, o->below_id, &p.below))
        return false;
    if (!o->no_slots && !r->is_memory)
        p.slot_ns = (r->length_ns + SLOTS - 1) / SLOTS;
    choose_nodes(&p, o->max_nodes);
    p.threads = PB_NEW_N(&p.arena, uint32_t, r->nthreads + 1);
    now = PB_NEW_N(&p.arena, struct leaf, r->nentries + 1);
    before = PB_NEW_N(&p.arena, struct leaf, r->nbefore + 1);
    n = gather(&p, r->entries, r->nentries, 1, true, now);
    nbefore = gather(&p, r->before, r->nbefore, r->before_scale, false, before);
    pb_buf_puts(out, "{\"title\":");
    pb_json_string(out, pb_format_title(r, &p.arena));
    if (r->is_memory)
        pb_buf_puts(out, ",\"unit\":\"bytes\"");
    pb_buf_puts(out, ",\"info\":");
    pb_json_string(out, pb_format_info(r, &p.arena));
    put_threads(&p, out);
    put_nodes(&p, out);
    put_leaves(out, "leaves", now, n);
    if (p.slot_ns)
        put_slots(&p, out, now, n);
    if (r->before_title)
        put_leaves(out, "before", before, nbefore);
    put_more(&p, out);
    pb_buf_putc(out, '}');
    pb_arena_finish(&p.arena);
    return true;
}
