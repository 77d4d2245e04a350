#include "cli/hot.h"

#include <stdlib.h>

#define BAR 16
#define FUNC_MAX 40

static int by_self(const void *x, const void *y)
{
    const struct pb_hot *a = x, *b = y;

    if (a->self_ns != b->self_ns)
        return a->self_ns > b->self_ns ? -1 : 1;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

/* A node counts for its frame unless the same frame stands further out on the stack. */
static void add_totals(const struct pb_recording *r, struct pb_hot *v, struct pb_arena *a)
{
    const struct pb_stacks *s = &r->stacks;
    uint64_t *self = PB_NEW_N(a, uint64_t, s->nnodes), *total = PB_NEW_N(a, uint64_t, s->nnodes);

    pb_recording_sums(r, self, total);
    for (uint32_t n = 1; n < s->nnodes; n++) {
        uint32_t up = s->nodes[n].parent;

        if (!total[n])
            continue;
        while (up && s->nodes[up].frame != s->nodes[n].frame)
            up = s->nodes[up].parent;
        if (!up)
            v[s->nodes[n].frame].total_ns += total[n];
    }
}

size_t pb_hot_frames(const struct pb_recording *r, struct pb_arena *a, struct pb_hot **ret,
                     uint64_t *ret_all)
{
    struct pb_hot *v = PB_NEW_N(a, struct pb_hot, r->stacks.nframes + 1);
    size_t n = 0;

    *ret_all = 0;
    for (size_t i = 0; i < r->stacks.nframes; i++)
        v[i].frame = &r->stacks.frames[i];
    for (size_t i = 0; i < r->nentries; i++) {
        const struct pb_rec_sample *e = &r->entries[i];
        struct pb_hot *h;

        *ret_all += e->weight_ns;
        if (!e->node)
            continue;
        h = &v[r->stacks.nodes[e->node].frame];
        h->self_ns += e->weight_ns;
        h->state_ns[e->state] += e->weight_ns;
        h->gil_wait_ns += e->waits_gil ? e->weight_ns : 0;
    }
    add_totals(r, v, a);
    for (size_t i = 0; i < r->stacks.nframes; i++)
        if (v[i].total_ns)
            v[n++] = v[i];
    qsort(v, n, sizeof *v, by_self);
    *ret = v;
    return n;
}

const char *pb_hot_state(const struct pb_hot *h)
{
    if (h->gil_wait_ns * 2 > h->self_ns)
        return "waiting for the GIL";
    for (int i = PB_IDLE; i <= PB_STOPPED; i++)
        if (h->state_ns[i] * 2 > h->self_ns)
            return pb_state_name((enum pb_state)i);
    return NULL;
}

static void put_bar(struct pb_print *out, double share, double most)
{
    int eighths = most > 0 ? (int)(share / most * BAR * 8 + 0.5) : 0, columns = 0;
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};

    pb_print_style(out, PB_CYAN);
    for (; eighths >= 8; eighths -= 8, columns++)
        pb_print_puts(out, "█");
    if (eighths) {
        pb_print_puts(out, parts[eighths]);
        columns++;
    }
    pb_print_style(out, PB_PLAIN);
    pb_print_f(out, "%*s", BAR + 2 - columns, "");
}

static const char *place_of(const struct pb_prof_frame *f, struct pb_arena *a)
{
    if (!f->file[0])
        return "";
    if (f->lineno <= 0)
        return pb_text_clean(a, pb_stacks_short_file(f->file));
    return pb_text_clean(a, pb_arena_printf(a, "%s:%d", pb_stacks_short_file(f->file), f->lineno));
}

void pb_hot_print(struct pb_print *out, const struct pb_recording *r, size_t lines)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_hot *v;
    uint64_t all;
    size_t n = pb_hot_frames(r, &a, &v, &all), func = 0, place = 0;

    n = n < lines ? n : lines;
    for (size_t i = 0; i < n; i++) {
        size_t w = pb_text_width(pb_text_clean(&a, v[i].frame->func));
        size_t p = pb_text_width(place_of(v[i].frame, &a));

        func = w > func ? w : func;
        place = p > place ? p : place;
    }
    func = func < FUNC_MAX ? func : FUNC_MAX;
    for (size_t i = 0; i < n && v[i].self_ns; i++) {
        const char *state = pb_hot_state(&v[i]);
        const char *name = pb_text_end(&a, pb_text_clean(&a, v[i].frame->func), func);

        pb_print_f(out, "  %4.1f %%  ", 100.0 * (double)v[i].self_ns / (double)all);
        put_bar(out, (double)v[i].self_ns, (double)v[0].self_ns);
        pb_print_cell(out, PB_BOLD, name, func + 2, false);
        pb_print_cell(out, PB_PLAIN, place_of(v[i].frame, &a), state ? place + 2 : 0, false);
        if (state)
            pb_print_text(out, PB_DIM, state);
        pb_print_puts(out, "\n");
    }
    pb_arena_finish(&a);
}
