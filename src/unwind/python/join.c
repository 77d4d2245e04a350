#include "unwind/python/join.h"

#include <string.h>

/* A part on its way into the whole. */
struct cursor {
    const struct pb_py_raw_stack *stack;
    uint64_t cframe;
    int part;
    size_t at;
};

/* Frames up to and with the marker that ends the next run; all that are left where none does. */
static size_t run_end(const struct cursor *c)
{
    size_t i = c->at;

    while (i < c->stack->n && !c->stack->v[i].shim)
        i++;
    return i < c->stack->n ? i + 1 : i;
}

/* Where the part's next run lies on the C stack, which grows downwards; 0 when nothing tells. */
static uint64_t place(const struct pb_py_layout *py, const struct cursor *c)
{
    size_t end = run_end(c);

    if (py->owner_shim != PB_NONE)
        return end > c->at && c->stack->v[end - 1].shim ? c->stack->v[end - 1].addr : 0;
    return c->cframe;
}

static struct cursor *innermost(const struct pb_py_layout *py, struct cursor *v, size_t n)
{
    struct cursor *best = NULL;

    for (size_t i = 0; i < n; i++)
        if (v[i].at < v[i].stack->n && (!best || place(py, &v[i]) < place(py, best)))
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
        v[i] = (struct cursor){&parts[i].stack, parts[i].cframe, (int)i, 0};
        total += parts[i].stack.n;
        ret->complete = ret->complete && parts[i].stack.complete;
    }
    ret->v = PB_NEW_N(a, struct pb_py_raw_frame, total + 1);
    while ((c = innermost(py, v, n))) {
        size_t end = py->owner_shim != PB_NONE ? run_end(c) : c->stack->n;

        for (; c->at < end; c->at++) {
            ret->v[ret->n] = c->stack->v[c->at];
            ret->v[ret->n++].part = c->part;
        }
    }
}
