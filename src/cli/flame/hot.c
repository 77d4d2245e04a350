#include "cli/flame/hot.h"

#include <stdlib.h>

enum { BAR = 16, BAR_MIN = 6, FUNC_MAX = 40, FUNC_MIN = 14, PLACE_MIN = 14 };
/* Columns in front of the bar: a share; or a change, from what to what. */
enum { LEAD = 11, LEAD_CHANGE = 30 };

static int by_self(const void *x, const void *y)
{
    const struct pb_hot *a = x, *b = y;

    if (a->self_ns != b->self_ns)
        return a->self_ns > b->self_ns ? -1 : 1;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

static uint64_t change_of(const struct pb_hot *h)
{
    return h->self_ns > h->before_ns ? h->self_ns - h->before_ns : h->before_ns - h->self_ns;
}

static int by_change(const void *x, const void *y)
{
    const struct pb_hot *a = x, *b = y;

    if (change_of(a) != change_of(b))
        return change_of(a) > change_of(b) ? -1 : 1;
    return by_self(x, y);
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

static void add_before(const struct pb_recording *r, struct pb_hot *v, struct pb_arena *a)
{
    const struct pb_stacks *s = &r->stacks;
    uint64_t *self = PB_NEW_N(a, uint64_t, s->nnodes), *total = PB_NEW_N(a, uint64_t, s->nnodes);

    pb_recording_sums_before(r, self, total);
    for (uint32_t n = 1; n < s->nnodes; n++)
        v[s->nodes[n].frame].before_ns += self[n];
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
        h->gil_hold_ns += e->holds_gil && e->state != PB_RUNNING ? e->weight_ns : 0;
    }
    add_totals(r, v, a);
    add_before(r, v, a);
    for (size_t i = 0; i < r->stacks.nframes; i++)
        if (v[i].total_ns || v[i].before_ns)
            v[n++] = v[i];
    qsort(v, n, sizeof *v, r->before_title ? by_change : by_self);
    *ret = v;
    return n;
}

const char *pb_hot_state(const struct pb_hot *h)
{
    static const char *const holding[] = {[PB_IDLE] = "idle, holds the GIL",
                                          [PB_WAITING] = "waiting, holds the GIL",
                                          [PB_STOPPED] = "stopped, holds the GIL"};

    if (h->gil_wait_ns * 2 > h->self_ns)
        return "waiting for the GIL";
    for (int i = PB_IDLE; i <= PB_STOPPED; i++)
        if (h->state_ns[i] * 2 > h->self_ns)
            return h->gil_hold_ns * 2 > h->self_ns ? holding[i] : pb_state_name((enum pb_state)i);
    return NULL;
}

static const char *location_of(const struct pb_prof_frame *f, struct pb_arena *a)
{
    if (!f->file[0])
        return "";
    if (f->lineno <= 0)
        return pb_text_clean(a, pb_stacks_short_file(f->file));
    return pb_text_clean(a, pb_arena_printf(a, "%s:%d", pb_stacks_short_file(f->file), f->lineno));
}

/* Columns of a line, fitted to a terminal. */
struct columns {
    size_t bar, func, place;
    bool state; /* what it does when it does not run is shown */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Takes from a column what is missing, down to its least width. */
static void shrink(size_t *column, size_t least, size_t *missing)
{
    size_t part = *column > least ? *column - least : 0;

    part = part < *missing ? part : *missing;
    *column -= part;
    *missing -= part;
}

static struct columns fit(const struct pb_print *out, const struct pb_hot *v, size_t n, size_t lead,
                          struct pb_arena *a)
{
    struct columns c = {.bar = BAR, .state = true};
    size_t state = 0, all, missing, width = (size_t)out->width;

    for (size_t i = 0; i < n; i++) {
        const char *text = v[i].self_ns ? pb_hot_state(&v[i]) : NULL;

        c.func = larger(c.func, pb_text_width(pb_text_clean(a, v[i].frame->func)));
        c.place = larger(c.place, pb_text_width(location_of(v[i].frame, a)));
        state = larger(state, text ? pb_text_width(text) + 2 : 0);
    }
    c.func = c.func < FUNC_MAX ? c.func : FUNC_MAX;
    all = lead + c.bar + 2 + c.func + 2 + c.place + state;
    if (!width || all <= width)
        return c;
    missing = all - width;
    shrink(&c.bar, BAR_MIN, &missing);
    shrink(&c.place, PLACE_MIN, &missing);
    shrink(&c.func, FUNC_MIN, &missing);
    shrink(&c.bar, 0, &missing);
    c.state = !missing;
    return c;
}

static void put_bar(struct pb_print *out, double share, double max, size_t width)
{
    int eighths = max > 0 ? (int)(share / max * (double)width * 8 + 0.5) : 0, columns = 0;
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};

    if (!width)
        return;
    pb_print_style(out, PB_CYAN);
    for (; eighths >= 8; eighths -= 8, columns++)
        pb_print_puts(out, "█");
    if (eighths) {
        pb_print_puts(out, parts[eighths]);
        columns++;
    }
    pb_print_style(out, PB_PLAIN);
    pb_print_f(out, "%*s", (int)width + 2 - columns, "");
}

/* By how much, and from what to what: shares of the time now. */
static void put_change(struct pb_print *out, const struct pb_hot *h, double all)
{
    double before = 100.0 * (double)h->before_ns / all, now = 100.0 * (double)h->self_ns / all;

    pb_print_f(out, "  %+5.1f %%  %5.1f → %-5.1f  ", now - before, before, now);
}

void pb_hot_print(struct pb_print *out, const struct pb_recording *r, size_t lines)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_hot *v;
    uint64_t all;
    size_t n = pb_hot_frames(r, &a, &v, &all);
    struct columns c;

    n = n < lines ? n : lines;
    c = fit(out, v, n, r->before_title ? LEAD_CHANGE : LEAD, &a);
    for (size_t i = 0; i < n && (v[i].self_ns || v[i].before_ns); i++) {
        const char *state = v[i].self_ns && c.state ? pb_hot_state(&v[i]) : NULL;
        const char *name = pb_text_end(&a, pb_text_clean(&a, v[i].frame->func), c.func);
        const char *place = pb_text_middle(&a, location_of(v[i].frame, &a), c.place);

        if (r->before_title)
            put_change(out, &v[i], (double)all);
        else
            pb_print_f(out, "  %4.1f %%  ", 100.0 * (double)v[i].self_ns / (double)all);
        put_bar(out, (double)(r->before_title ? change_of(&v[i]) : v[i].self_ns),
                (double)(r->before_title ? change_of(&v[0]) : v[0].self_ns), c.bar);
        pb_print_cell(out, PB_BOLD, name, c.func + 2, false);
        pb_print_cell(out, PB_PLAIN, place, state ? c.place + 2 : 0, false);
        if (state)
            pb_print_text(out, PB_DIM, state);
        pb_print_puts(out, "\n");
    }
    pb_arena_finish(&a);
}
