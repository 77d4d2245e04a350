/* Python functions that are being called, seen from the C function that the innermost one calls. */
#include <string.h>

#include "agent/collect/torch/torch.h"
#include "agent/ownmem.h"

#define DEPTH_MAX 200
/* From 3.11 on a frame object points to what it stands for, which has some words before locals. */
#define WORDS_AT 24
#define SPECIAL_WORDS 9
#define LOCALS_MAX 32
#define TAG_MASK ((uintptr_t)7) /* 3.14 has bits of its own in a local */
/* Of the function that torch's profiler has a name for, mostly the first. */
#define STEP_DEPTH 2
#define STEP_DEPTH_MAX 4

struct _object *pb_torch_frame(const struct pb_py *py, int depth)
{
    struct _object *frame = py->PyEval_GetFrame();

    py->Py_IncRef(frame);
    while (frame && depth-- > 0) {
        struct _object *back = py->PyObject_GetAttrString(frame, "f_back");

        py->Py_DecRef(frame);
        frame = back;
    }
    py->PyErr_Clear();
    return frame;
}

bool pb_torch_called_from(struct pb_torch *t, const struct _object *globals)
{
    const struct pb_py *py = &t->self->py;
    struct _object *frame, *its;

    if (!globals || py->PyEval_GetGlobals() == globals)
        return globals != NULL;
    frame = pb_torch_frame(py, 1);
    its = frame ? py->PyObject_GetAttrString(frame, "f_globals") : NULL;
    py->PyErr_Clear();
    py->Py_DecRef(its);
    py->Py_DecRef(frame);
    return its == globals;
}

bool pb_torch_called_within(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *function = py->PyObject_GetAttrString(t->module_type, "__call__");
    struct _object *call = function ? py->PyObject_GetAttrString(function, "__code__") : NULL;
    struct _object *frame = call ? pb_torch_frame(py, 0) : NULL, *code, *back;
    bool within = false;

    for (int depth = 0; frame && !within && depth < DEPTH_MAX; depth++) {
        code = py->PyObject_GetAttrString(frame, "f_code");
        within = code && code == call;
        back = py->PyObject_GetAttrString(frame, "f_back");
        py->PyErr_Clear();
        py->Py_DecRef(code);
        py->Py_DecRef(frame);
        frame = back;
    }
    py->PyErr_Clear();
    py->Py_DecRef(frame);
    py->Py_DecRef(call);
    py->Py_DecRef(function);
    return within;
}

struct _object *pb_torch_frame_optimizer(struct pb_torch *t, struct _object *frame)
{
    static const char *const names[] = {"self", "obj"}; /* in torch 1.13 */
    const struct pb_py *py = &t->self->py;
    struct _object *locals = frame ? py->PyObject_GetAttrString(frame, "f_locals") : NULL;
    struct _object *found = NULL;

    py->PyErr_Clear();
    for (size_t i = 0; locals && !found && i < sizeof names / sizeof *names; i++) {
        struct _object *value = py->PyMapping_GetItemString(locals, names[i]);
        struct _object *type = value ? py->PyObject_Type(value) : NULL;

        if (type && py->PyType_IsSubtype(type, t->optimizer_type))
            found = value;
        py->PyErr_Clear();
        py->Py_DecRef(type);
        py->Py_DecRef(value);
    }
    py->Py_DecRef(locals);
    return found;
}

/*
 * A frame's f_locals makes a dictionary of all that is in it. The same function makes every step,
 * though, and mostly for the same optimizer: so where that was is remembered, and looked at first.
 */
static struct _object *still_there(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    const struct pb_torch_seat *s = &t->seat;
    struct _object *frame, *back, *code;
    const uintptr_t *words;
    bool yes = false;

    if (!s->code)
        return NULL;
    frame = py->PyEval_GetFrame();
    py->Py_IncRef(frame);
    for (int i = 0; i < s->depth && frame; i++) {
        back = py->PyFrame_GetBack(frame);
        py->Py_DecRef(frame);
        frame = back;
    }
    code = frame ? py->PyFrame_GetCode(frame) : NULL;
    if (code && code == s->code) {
        memcpy(&words, (const char *)frame + WORDS_AT, sizeof words);
        yes = (words[s->at] & ~TAG_MASK) == (uintptr_t)s->optimizer;
    }
    py->Py_DecRef(code);
    py->Py_DecRef(frame);
    return yes ? s->optimizer : NULL;
}

/* Words that are there for sure: the special ones, and the function's own variables. */
static size_t words_of(const struct pb_py *py, struct _object *code)
{
    struct _object *count = code ? py->PyObject_GetAttrString(code, "co_nlocals") : NULL;
    long long n = count ? py->PyLong_AsLongLong(count) : 0;

    py->PyErr_Clear();
    py->Py_DecRef(count);
    return n <= 0 ? 0 : SPECIAL_WORDS + (size_t)(n < LOCALS_MAX ? n : LOCALS_MAX);
}

/* Only where a frame is laid out as we know it: it has the address of its object, too. */
static void remember(struct pb_torch *t, struct _object *frame, int depth,
                     struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    bool known = py->minor >= 11 && py->PyFrame_GetBack && py->PyFrame_GetCode;
    struct _object *code = known ? py->PyFrame_GetCode(frame) : NULL;
    struct _object *old = t->seat.code;
    uintptr_t words[SPECIAL_WORDS + LOCALS_MAX];
    size_t n = words_of(py, code), at = SPECIAL_WORDS - 1;
    const void *from;
    bool its_own = false;

    if (!n || !pb_ownmem_read(&from, (uintptr_t)frame + WORDS_AT, sizeof from) ||
        !pb_ownmem_read(words, (uintptr_t)from, n * sizeof *words))
        n = 0;
    for (size_t i = 0; i < SPECIAL_WORDS && n; i++)
        its_own |= words[i] == (uintptr_t)frame;
    while (at < n && (words[at] & ~TAG_MASK) != (uintptr_t)optimizer)
        at++;
    t->seat = (struct pb_torch_seat){NULL, optimizer, depth, (uint32_t)at};
    if (its_own && at < n) {
        t->seat.code = code;
        code = NULL;
    }
    py->Py_DecRef(old);
    py->Py_DecRef(code);
}

struct _object *pb_torch_step_optimizer(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *found = still_there(t);

    for (int depth = STEP_DEPTH; !found && depth <= STEP_DEPTH_MAX; depth++) {
        struct _object *frame = pb_torch_frame(py, depth);

        found = pb_torch_frame_optimizer(t, frame);
        if (found && t->on)
            remember(t, frame, depth, found);
        py->Py_DecRef(frame);
    }
    return found;
}
