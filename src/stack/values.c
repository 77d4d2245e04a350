#include "stack/values.h"

#include "host/process/mempages.h"
#include "stack/python/locals.h"

#define CHANGED "<changed while it was read>"

void pb_values_read(struct pb_py_codes *c, const struct pb_capture_opts *o, struct pb_work *w,
                    struct pb_arena *a)
{
    const struct pb_py_raw_stack *s = &w->capture.python;
    struct pb_mem *mem = c->reader.mem;
    struct pb_mem_pages pages;
    size_t from, to;

    /* Each page is read once, however many variables lead to it. */
    pb_mem_pages_init(&pages, mem);
    c->reader.mem = &pages.mem;
    pb_py_middle(s, o->head, o->tail, &from, &to);
    w->values = PB_NEW_N(a, struct pb_values, s->n + 1);
    for (size_t i = 0; i < s->n; i++) {
        struct pb_values *v = &w->values[i];

        if (!w->codes[i] || (i >= from && i < to))
            continue;
        v->nslots = pb_py_slots(c, w->codes[i], &s->v[i], a, &v->slots);
        v->n = pb_py_locals(c, w->codes[i], &s->v[i], a, &v->v);
    }
    c->reader.mem = mem;
    pb_mem_pages_finish(&pages);
}

static void take_away(struct pb_values *v)
{
    for (size_t i = 0; i < v->n; i++)
        v->v[i].value = CHANGED;
}

static bool refers_to(const struct pb_py_slot *slots, size_t n, const struct pb_py_slot *wanted)
{
    for (size_t i = 0; i < n; i++)
        if (slots[i].name == wanted->name)
            return slots[i].ref == wanted->ref;
    return false;
}

/* The variables of a frame that is there still. Returns whether all are what they were. */
static bool check_variables(struct pb_py_codes *c, struct pb_py_code *code,
                            const struct pb_py_raw_frame *now, struct pb_values *v,
                            struct pb_arena *a)
{
    struct pb_py_slot *slots;
    size_t n = pb_py_slots(c, code, now, a, &slots);
    bool same = n == v->nslots;

    for (size_t i = 0; i < v->nslots; i++) {
        if (refers_to(slots, n, &v->slots[i]))
            continue;
        same = false;
        if (i < v->n)
            v->v[i].value = CHANGED;
    }
    return same;
}

bool pb_values_check(struct pb_py_codes *c, const struct pb_capture_opts *o, struct pb_work *w,
                     struct pb_arena *a)
{
    const struct pb_py_raw_stack *s = &w->capture.python;
    struct pb_py_raw_stack now;
    bool in_call = pb_capture_python(o, w->capture.tstates, a, &now), good = true;

    /* From the outermost frame inwards: what a frame has called is gone when it has moved on. */
    for (size_t k = 1; k <= s->n; k++) {
        const struct pb_py_raw_frame *f = &s->v[s->n - k];
        const struct pb_py_raw_frame *g = k <= now.n ? &now.v[now.n - k] : NULL;
        struct pb_values *v = &w->values[s->n - k];

        in_call = in_call && g && f->addr == g->addr && f->code == g->code;
        if (in_call && !w->codes[s->n - k]) {
            in_call = f->shim || f->instr == g->instr;
        } else if (in_call) {
            bool same = check_variables(c, w->codes[s->n - k], g, v, a);

            good = good && same;
            in_call = same && f->instr == g->instr;
        } else {
            good = good && !v->n;
            take_away(v);
        }
    }
    return good;
}
