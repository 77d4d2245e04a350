#include "recording/compare.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

/* Nodes and threads of one recording as numbers of another. */
struct mapping {
    const struct pb_recording *from;
    struct pb_recording *to;
    uint32_t *nodes, *threads; /* numbers shifted by one; 0: not known yet */
    uint32_t root; /* stands for the root of `to`; 0: the root itself */
    uint32_t *way; /* nodes on the way up to one that is known */
    size_t way_cap;
};

static void begin(struct mapping *m, const struct pb_recording *from, struct pb_recording *to,
                  uint32_t root)
{
    size_t nodes = from->stacks.nnodes * sizeof *m->nodes;
    size_t threads = (from->nthreads + 1) * sizeof *m->threads;

    *m = (struct mapping){.from = from, .to = to, .nodes = pb_alloc_resize(NULL, nodes),
                          .threads = pb_alloc_resize(NULL, threads), .root = root};
    memset(m->nodes, 0, nodes);
    memset(m->threads, 0, threads);
    m->nodes[0] = m->nodes[root] = 1;
}

static void end(struct mapping *m)
{
    free(m->nodes);
    free(m->threads);
    free(m->way);
}

/* No recursion: how deep a stack is, was said by a stranger. */
static uint32_t node_of(struct mapping *m, uint32_t node)
{
    const struct pb_prof_node *nodes = m->from->stacks.nodes;
    size_t n = 0;

    for (uint32_t at = node; !m->nodes[at]; at = nodes[at].parent) {
        if (n == m->way_cap) {
            m->way_cap = m->way_cap ? m->way_cap * 2 : 64;
            m->way = pb_alloc_resize(m->way, m->way_cap * sizeof *m->way);
        }
        m->way[n++] = at;
    }
    while (n-- > 0) {
        const struct pb_prof_node *it = &nodes[m->way[n]];
        struct pb_prof_frame f = m->from->stacks.frames[it->frame];

        if (m->to->collapsed)
            f.file = pb_stacks_short_file(f.file);
        m->nodes[m->way[n]] =
            1 + pb_stacks_child(&m->to->stacks, m->nodes[it->parent] - 1, &f);
    }
    return m->nodes[node] - 1;
}

static uint32_t thread_of(struct mapping *m, uint32_t thread)
{
    const struct pb_rec_thread *t = &m->from->threads[thread];
    uint32_t i = 0;

    if (m->threads[thread])
        return m->threads[thread] - 1;
    while (i < m->to->nthreads && (strcmp(m->to->threads[i].name, t->name) != 0 ||
                                   m->to->threads[i].is_main != t->is_main))
        i++;
    if (i == m->to->nthreads)
        i = pb_recording_thread(m->to, t->pid, t->tid, t->name);
    m->to->threads[i].ran |= t->ran;
    m->threads[thread] = i + 1;
    return i;
}

static void add_before(struct pb_recording *r, const struct pb_rec_sample *s)
{
    if (r->nbefore == r->before_cap) {
        r->before_cap = r->before_cap ? r->before_cap * 2 : 256;
        r->before = pb_alloc_resize(r->before, r->before_cap * sizeof *r->before);
    }
    r->before[r->nbefore++] = *s;
}

/*
 * For how long there are samples. A process may have begun, or ended, within the window; as long as
 * it lives its main thread is sampled, whatever that does. Of collapsed stacks only the time of all
 * threads together is known.
 */
static double sampled_ns(const struct pb_recording *r, bool all_threads)
{
    size_t size = (r->nthreads + 1) * sizeof(uint64_t);
    uint64_t *sums = pb_alloc_resize(NULL, size), longest = 0;

    memset(sums, 0, size);
    for (size_t i = 0; i < r->nentries; i++) {
        uint32_t thread = all_threads ? 0 : r->entries[i].thread;

        sums[thread] += r->entries[i].weight_ns;
        if ((all_threads || r->threads[thread].is_main) && sums[thread] > longest)
            longest = sums[thread];
    }
    free(sums);
    longest = longest ? longest : r->length_ns;
    return longest ? (double)longest : 1;
}

static void set_scale(struct pb_recording *r, double scale, const char *title)
{
    r->before_title = pb_arena_strdup(&r->stacks.arena, title);
    r->before_scale = scale;
}

static uint32_t outermost(const struct pb_stacks *s, uint32_t node)
{
    while (node && s->nodes[node].parent)
        node = s->nodes[node].parent;
    return node;
}

/* What lies below one of the outermost frames, without that; 0: everything. */
static void copy_below(const struct pb_recording *r, uint32_t root, bool collapsed,
                       struct pb_recording *ret)
{
    struct mapping m;

    pb_recording_init(ret);
    ret->pid = r->pid;
    ret->command = pb_arena_strdup(&ret->stacks.arena, r->command ? r->command : "");
    ret->python = r->python ? pb_arena_strdup(&ret->stacks.arena, r->python) : NULL;
    ret->processes = root ? 1 : r->processes;
    ret->rate = r->rate;
    ret->started_ns = r->started_ns;
    ret->length_ns = r->length_ns;
    ret->collapsed = collapsed;
    begin(&m, r, ret, root);
    for (size_t i = 0; i < r->nentries; i++) {
        struct pb_rec_sample s = r->entries[i];

        if (root && outermost(&r->stacks, s.node) != root)
            continue;
        if (root && !ret->samples)
            ret->pid = r->threads[s.thread].pid;
        s.node = node_of(&m, s.node);
        s.thread = thread_of(&m, s.thread);
        pb_recording_add(ret, &s);
    }
    end(&m);
}

static void shorten_files(struct pb_recording *r)
{
    struct pb_recording whole = *r;

    copy_below(&whole, 0, true, r);
    pb_recording_finish(&whole);
}

void pb_compare(struct pb_recording *r, const struct pb_recording *before, const char *title)
{
    bool all_threads = r->collapsed || before->collapsed;
    struct mapping m;

    if (before->collapsed && !r->collapsed)
        shorten_files(r);
    begin(&m, before, r, 0);
    for (size_t i = 0; i < before->nentries; i++) {
        struct pb_rec_sample s = before->entries[i];

        s.node = node_of(&m, s.node);
        s.thread = thread_of(&m, s.thread);
        add_before(r, &s);
    }
    end(&m);
    set_scale(r, sampled_ns(r, all_threads) / sampled_ns(before, all_threads), title);
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

/* Of n values, of which those that are not there are 0. */
static double middle(double *v, size_t there, size_t n)
{
    for (size_t i = there; i < n; i++)
        v[i] = 0;
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* By stack, thread and state. */
static int by_location(const struct pb_rec_sample *a, const struct pb_rec_sample *b)
{
    uint64_t ka = (uint64_t)a->node << 32 | a->thread, kb = (uint64_t)b->node << 32 | b->thread;
    int fa = a->state * 8 + a->on_cpu * 4 + a->holds_gil * 2 + a->waits_gil;
    int fb = b->state * 8 + b->on_cpu * 4 + b->holds_gil * 2 + b->waits_gil;

    return ka != kb ? (ka < kb ? -1 : 1) : fa - fb;
}

static int by_location_and_source(const void *x, const void *y)
{
    const struct pb_rec_sample *a = x, *b = y;
    int order = by_location(a, b);

    return order ? order : (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

/* One entry for each stack, thread and state of each of the others; at_ns says whose it is. */
static struct pb_rec_sample *gather(struct pb_recording *r, const struct pb_recording *others,
                                    size_t n, size_t *ret_n)
{
    struct pb_rec_sample *v = NULL;
    size_t count = 0;

    for (size_t k = 0; k < n; k++) {
        struct pb_arena a = PB_ARENA_INIT;
        struct pb_rec_leaf *leaves;
        size_t nleaves = pb_recording_leaves(&others[k], &a, &leaves);
        struct mapping m;

        begin(&m, &others[k], r, 0);
        v = pb_alloc_resize(v, (count + nleaves + 1) * sizeof *v);
        for (size_t i = 0; i < nleaves; i++) {
            const struct pb_rec_leaf *l = &leaves[i];

            v[count++] = (struct pb_rec_sample){
                .at_ns = k, .weight_ns = l->weight_ns, .thread = thread_of(&m, l->thread),
                .node = node_of(&m, l->node), .state = l->state, .on_cpu = l->on_cpu,
                .holds_gil = l->holds_gil, .waits_gil = l->waits_gil};
        }
        end(&m);
        pb_arena_finish(&a);
    }
    *ret_n = count;
    return v;
}

void pb_compare_median(struct pb_recording *r, const struct pb_recording *others, size_t n,
                       const char *title)
{
    size_t count;
    struct pb_rec_sample *v = gather(r, others, n, &count);
    double *values = pb_alloc_resize(NULL, (n + 1) * sizeof *values);
    double *lengths = pb_alloc_resize(NULL, (n + 1) * sizeof *lengths), own = sampled_ns(r, false);

    for (size_t k = 0; k < n; k++)
        lengths[k] = sampled_ns(&others[k], false);
    if (count)
        qsort(v, count, sizeof *v, by_location_and_source);
    for (size_t i = 0, next; i < count; i = next) {
        size_t there = 0;

        for (next = i; next < count && by_location(&v[i], &v[next]) == 0; next++) {
            double part = (double)v[next].weight_ns / lengths[v[next].at_ns];

            /* Two threads of one name are one. */
            if (next > i && v[next].at_ns == v[next - 1].at_ns && there)
                values[there - 1] += part;
            else
                values[there++] = part;
        }
        v[i].weight_ns = (uint64_t)(middle(values, there, n) * own + 0.5);
        v[i].at_ns = 0;
        if (v[i].weight_ns)
            add_before(r, &v[i]);
    }
    free(lengths);
    free(values);
    free(v);
    set_scale(r, 1, title);
}

size_t pb_compare_roots(const struct pb_recording *r, struct pb_arena *a, uint32_t **ret)
{
    uint32_t *v = PB_NEW_N(a, uint32_t, r->stacks.nnodes);
    bool *seen = PB_NEW_N(a, bool, r->stacks.nnodes);
    size_t n = 0;

    for (size_t i = 0; i < r->nentries; i++)
        seen[outermost(&r->stacks, r->entries[i].node)] = true;
    for (uint32_t i = 1; i < r->stacks.nnodes; i++)
        if (seen[i])
            v[n++] = i;
    *ret = v;
    return n;
}

void pb_compare_split(const struct pb_recording *r, uint32_t root, struct pb_recording *ret)
{
    copy_below(r, root, r->collapsed, ret);
}
