#include "stack/build.h"

#include <string.h>

#include "stack/merge.h"

#define UNREADABLE "<unreadable>"

void pb_build_limits(size_t max, size_t *ret_head, size_t *ret_tail)
{
    *ret_head = max ? max - max / 2 : PB_PY_FRAMES_MAX;
    *ret_tail = max ? max / 2 : 0;
}

bool pb_build_codes(struct pb_py_codes *c, const struct pb_capture_opts *o, struct pb_work *w,
                    struct pb_arena *a)
{
    const struct pb_py_raw_stack *s = &w->capture.python;
    uint64_t *wanted = PB_NEW_N(a, uint64_t, s->n + 1);
    size_t from, to;

    pb_py_middle(s, o->head, o->tail, &from, &to);
    w->codes = PB_NEW_N(a, struct pb_py_code *, s->n + 1);
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].shim || (i >= from && i < to))
            continue;
        wanted[i] = s->v[i].code;
    }
    return pb_py_codes_get(c, wanted, s->n, a, w->codes);
}

void pb_build_native(struct pb_native *n, struct pb_work *work, size_t count, struct pb_arena *a)
{
    struct pb_native_stack *stacks = PB_NEW_N(a, struct pb_native_stack, count + 1);

    for (size_t i = 0; i < count; i++)
        if (work[i].capture.has_regs)
            pb_native_unwind(n, &work[i].capture.regs, &work[i].capture.stack, 0, a, &stacks[i]);
    pb_native_symbolize(n, stacks, count, true, a);
    for (size_t i = 0; i < count; i++)
        work[i].native = stacks[i];
}

static void python_frame(struct pb_py_codes *c, const struct pb_snapshot_opts *o,
                         const struct pb_work *w, size_t index, struct pb_frame *f)
{
    const struct pb_py_raw_frame *raw = &w->capture.python.v[index];
    struct pb_py_code *code = w->codes[index];
    struct pb_py_position p;

    f->func = f->file = UNREADABLE;
    f->address = raw->addr;
    if (raw->part < (int)w->npy)
        f->interpreter = w->py[raw->part]->interp_id;
    if (!code)
        return;
    f->func = code->func;
    f->file = code->file;
    p = pb_py_code_position(c, code, raw);
    f->lineno = p.line;
    f->end_lineno = p.end_line;
    f->col_offset = p.column;
    f->end_col_offset = p.end_column;
    if (o->locals && w->values) {
        f->locals = w->values[index].v;
        f->nlocals = w->values[index].n;
    }
}

static void native_frame(const struct pb_native_frame *n, struct pb_frame *f)
{
    f->native = true;
    f->func = n->func;
    f->file = n->file;
    f->lineno = n->lineno;
    f->module = n->module;
    f->offset = n->offset;
}

/* The order of the frames when the two stacks are not one: native first, then Python. */
static size_t two_parts(const struct pb_work *w, struct pb_arena *a, struct pb_merged **ret)
{
    const struct pb_py_raw_stack *py = &w->capture.python;
    struct pb_merged *out = PB_NEW_N(a, struct pb_merged, py->n + w->native.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < w->native.n; i++)
        out[n++] = (struct pb_merged){true, i};
    for (size_t i = 0; i < py->n; i++)
        if (!py->v[i].shim)
            out[n++] = (struct pb_merged){false, i};
    *ret = out;
    return n;
}

static const char *native_end(enum pb_native_end end)
{
    switch (end) {
    case PB_NATIVE_COMPLETE:
        return NULL;
    case PB_NATIVE_NO_RULE:
        return "native stack ends early: code without unwind information";
    case PB_NATIVE_NO_REG:
        return "native stack ends early: a register of a sleeping thread is not known";
    case PB_NATIVE_NO_MEMORY:
        return "native stack ends early: its memory cannot be read";
    case PB_NATIVE_TOO_DEEP:
        return "native stack ends early: too deep";
    case PB_NATIVE_LOOP:
        return "native stack ends early: it does not lead outwards";
    }
    return NULL;
}

static size_t order(const struct pb_py_layout *py, const struct pb_snapshot_opts *o,
                    const struct pb_work *w, struct pb_arena *a, struct pb_merged **ret,
                    const char **ret_note)
{
    size_t n;

    *ret_note = NULL;
    if (!o->native)
        return two_parts(w, a, ret);
    *ret_note = w->capture.native_note ? pb_arena_printf(a, "no native stack: %s",
                                                         w->capture.native_note)
                                       : native_end(w->native.end);
    if (w->native.n && pb_merge(py, &w->capture.python, &w->native, a, ret, &n))
        return n;
    if (w->native.n && w->capture.python.n && !*ret_note)
        *ret_note = "native and Python stack do not fit together: shown one after the other";
    return two_parts(w, a, ret);
}

void pb_build_frames(struct pb_py_codes *c, const struct pb_snapshot_opts *o,
                     const struct pb_work *w, struct pb_arena *a, struct pb_thread *ret)
{
    struct pb_merged *m;
    size_t head, tail;

    pb_build_limits(o->max_frames, &head, &tail);
    ret->total = order(c->reader.py, o, w, a, &m, &ret->note);
    if (o->max_frames && ret->total > o->max_frames) {
        ret->cut_at = head;
        ret->elided = ret->total - head - tail;
    }
    ret->frames = PB_NEW_N(a, struct pb_frame, ret->total - ret->elided + 1);
    for (size_t i = 0; i < ret->total; i++) {
        struct pb_frame *f = &ret->frames[ret->nframes];

        if (ret->elided && i >= head && i < head + ret->elided)
            continue;
        f->depth = i;
        f->col_offset = f->end_col_offset = -1;
        if (m[i].native)
            native_frame(&w->native.v[m[i].index], f);
        else
            python_frame(c, o, w, m[i].index, f);
        ret->nframes++;
    }
}
