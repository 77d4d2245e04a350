#include "stack/python/join.h"

#include <string.h>

/* A part on its way into the whole: its next run is [at, end). */
struct cursor {
    const struct pb_py_raw_stack *stack;
    uint64_t cframe;
    int part;
    size_t at, end;
    uint64_t place; /* that run on the C stack, which grows downwards; 0 when nothing tells */
};

/* Finds the next run: the frames up to and with its marker, or all that are left. */
static void look_ahead(const struct pb_py_layout *py, struct cursor *c)
{
    const struct pb_py_raw_stack *s = c->stack;

    c->end = s->n;
    c->place = c->cframe;
    if (py->owner_shim == PB_NONE)
        return;
    for (c->end = c->at; c->end < s->n && !s->v[c->end].shim;)
        c->end++;
    c->place = c->end < s->n ? s->v[c->end].addr : 0;
    c->end += c->end < s->n;
}

static struct cursor *innermost(struct cursor *v, size_t n)
{
    struct cursor *best = NULL;

    for (size_t i = 0; i < n; i++)
        if (v[i].at < v[i].stack->n && (!best || v[i].place < best->place))
            best = &v[i];
    return best;
}

void pb_py_join(const struct pb_py_layout *py, struct pb_py_part *parts, size_t n,
                struct pb_arena *a, struct pb_py_raw_stack *ret)
{
    struct cursor *v = PB_NEW_N(a, struct cursor, n + 1), *c;
    size_t total = 0;

    memset(ret, 0, sizeof *ret);
    ret->complete = true;
    for (size_t i = 0; i < n; i++) {
        v[i] = (struct cursor){
            .stack = &parts[i].stack, .cframe = parts[i].cframe, .part = (int)i};
        look_ahead(py, &v[i]);
        total += parts[i].stack.n;
        ret->complete = ret->complete && parts[i].stack.complete;
    }
    ret->v = PB_NEW_N(a, struct pb_py_raw_frame, total + 1);
    while ((c = innermost(v, n))) {
        for (; c->at < c->end; c->at++) {
            ret->v[ret->n] = c->stack->v[c->at];
            ret->v[ret->n++].part = c->part;
        }
        look_ahead(py, c);
    }
}
