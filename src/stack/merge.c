#include "stack/merge.h"

#include <string.h>

/* Python frames that one run of the evaluator carries: [first, end) without the shim. */
struct group {
    size_t first, end;
    uint64_t shim; /* address of the marker on the C stack, 0 when there is none */
};

static bool is_run(const struct pb_py_layout *py, const struct pb_native_frame *f)
{
    return pb_native_is_in(f, py->loop);
}

/* Does this frame close its group? */
static bool ends_group(const struct pb_py_layout *py, const struct pb_py_raw_frame *f)
{
    if (py->f_is_entry != PB_NONE)
        return f->is_entry;
    if (py->f_owner != PB_NONE)
        return f->shim;
    return true;
}

static size_t split(const struct pb_py_layout *py, const struct pb_py_raw_stack *s,
                    struct group *groups)
{
    size_t n = 0, first = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (!ends_group(py, &s->v[i]))
            continue;
        groups[n++] = s->v[i].shim ? (struct group){first, i, s->v[i].addr}
                                   : (struct group){first, i + 1, 0};
        first = i + 1;
    }
    if (first < s->n)
        groups[n++] = (struct group){first, s->n, 0};
    return n;
}

/* The marker lies inside the C frame of the run that made it. */
static bool fits(const struct group *g, const struct pb_native_frame *f)
{
    return !g->shim || (g->shim >= f->sp && g->shim < f->cfa);
}

/*
 * Pairs groups with runs from the outermost end; pair[i] is the group of the
 * native frame i, or -1. False when a group finds no run.
 */
static bool match(const struct pb_py_layout *py, const struct group *groups, size_t ngroups,
                  const struct pb_native_stack *native, int64_t *pair)
{
    size_t g = ngroups;

    for (size_t i = native->n; i-- > 0;) {
        pair[i] = -1;
        if (!is_run(py, &native->v[i]) || g == 0)
            continue;
        if (!fits(&groups[g - 1], &native->v[i]))
            return false;
        pair[i] = (int64_t)--g;
    }
    return g == 0;
}

/*
 * A native stack that ends early has lost its outer runs. The markers still tell
 * which group belongs to which of the inner ones; *ret_left is the first group
 * whose run is missing.
 */
static bool match_cut(const struct pb_py_layout *py, const struct group *groups, size_t ngroups,
                      const struct pb_native_stack *native, int64_t *pair, size_t *ret_left)
{
    size_t g = 0;

    for (size_t i = 0; i < native->n; i++) {
        pair[i] = -1;
        if (g < ngroups && groups[g].shim && is_run(py, &native->v[i]) &&
            fits(&groups[g], &native->v[i]))
            pair[i] = (int64_t)g++;
    }
    *ret_left = g;
    return g > 0;
}

static void add_group(struct pb_merged *out, size_t *n, const struct group *g)
{
    for (size_t i = g->first; i < g->end; i++)
        out[(*n)++] = (struct pb_merged){false, i};
}

bool pb_merge(const struct pb_py_layout *py, const struct pb_py_raw_stack *python,
              const struct pb_native_stack *native, struct pb_arena *a, struct pb_merged **ret,
              size_t *ret_n)
{
    struct group *groups = PB_NEW_N(a, struct group, python->n + 1);
    size_t ngroups = split(py, python, groups), left = ngroups, n = 0;
    int64_t *pair = PB_NEW_N(a, int64_t, native->n + 1);
    struct pb_merged *out;

    if (native->end == PB_NATIVE_COMPLETE ? !match(py, groups, ngroups, native, pair)
                                          : !match_cut(py, groups, ngroups, native, pair, &left))
        return false;
    out = PB_NEW_N(a, struct pb_merged, python->n + native->n + 1);
    for (size_t i = 0; i < native->n; i++) {
        if (pair[i] >= 0)
            add_group(out, &n, &groups[pair[i]]);
        else
            out[n++] = (struct pb_merged){true, i};
    }
    for (; left < ngroups; left++)
        add_group(out, &n, &groups[left]);
    *ret = out;
    *ret_n = n;
    return true;
}
