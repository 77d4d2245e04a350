#include "agent/torch/frames.h"

#include <string.h>

#include "agent/torch/torch.h"
#include "base/ownmem.h"

#define DEPTH_MAX 200
/* A frame object points to the interpreter's frame: some words, then the locals. */
#define SPECIAL_WORDS 9
#define LOCALS_MAX 32
#define TAG_MASK ((uintptr_t)7) /* from 3.14 on the low bits of a local are flags */
/* Depths at which the frame of an optimizer's step is looked for. */
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

/* Whether any function that is being called is what it is looked for. */
static bool is_called(struct pb_torch *t, const struct _object *what,
                      bool (*fits)(struct pb_torch *t, struct _object *frame,
                                   struct _object *code, const struct _object *what))
{
    const struct pb_py *py = &t->self->py;
    struct _object *frame = pb_torch_frame(py, 0), *code, *back;
    bool found = false;

    for (int depth = 0; frame && !found && depth < DEPTH_MAX; depth++) {
        code = py->PyObject_GetAttrString(frame, "f_code");
        found = code && fits(t, frame, code, what);
        back = py->PyObject_GetAttrString(frame, "f_back");
        py->PyErr_Clear();
        py->Py_DecRef(code);
        py->Py_DecRef(frame);
        frame = back;
    }
    py->PyErr_Clear();
    py->Py_DecRef(frame);
    return found;
}

static bool is_code(struct pb_torch *t, struct _object *frame, struct _object *code,
                    const struct _object *what)
{
    (void)t;
    (void)frame;
    return code == what;
}

bool pb_torch_called_within(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *function = py->PyObject_GetAttrString(t->slots.module_type, "__call__");
    struct _object *call = function ? py->PyObject_GetAttrString(function, "__code__") : NULL;
    bool within = call && is_called(t, call, is_code);

    py->PyErr_Clear();
    py->Py_DecRef(call);
    py->Py_DecRef(function);
    return within;
}

/* Torch puts a function of this name around the step of every class of optimizers. */
static bool is_step(struct pb_torch *t, struct _object *frame, struct _object *code,
                    const struct _object *what)
{
    const struct pb_py *py = &t->self->py;
    struct _object *name = py->PyObject_GetAttrString(code, "co_name");
    const char *s = name ? py->PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    bool fits = s && strcmp(s, "wrapper") == 0;

    (void)what;
    py->PyErr_Clear();
    py->Py_DecRef(name);
    return fits && pb_torch_frame_optimizer(t, frame);
}

bool pb_torch_steps_within(struct pb_torch *t)
{
    return is_called(t, NULL, is_step);
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

        if (type && py->PyType_IsSubtype(type, t->optimizers.type))
            found = value;
        py->PyErr_Clear();
        py->Py_DecRef(type);
        py->Py_DecRef(value);
    }
    py->Py_DecRef(locals);
    return found;
}

/*
 * The optimizer of the last step, if it stands where it stood then: f_locals would make a
 * dictionary of all that is in a frame.
 */
static struct _object *cached_optimizer(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    const struct pb_torch_cached_optimizer *c = &t->optimizers.cached;
    struct _object *frame, *back, *code;
    const uintptr_t *words;
    bool yes = false;

    if (!c->code)
        return NULL;
    frame = py->PyEval_GetFrame();
    py->Py_IncRef(frame);
    for (int i = 0; i < c->depth && frame; i++) {
        back = py->PyFrame_GetBack(frame);
        py->Py_DecRef(frame);
        frame = back;
    }
    code = frame ? py->PyFrame_GetCode(frame) : NULL;
    if (code && code == c->code) {
        memcpy(&words, (const char *)frame + py->layout.frame_object_frame, sizeof words);
        yes = (words[c->word] & ~TAG_MASK) == (uintptr_t)c->optimizer;
    }
    py->Py_DecRef(code);
    py->Py_DecRef(frame);
    return yes ? c->optimizer : NULL;
}

/* Words of a frame that are there for sure: the special ones, and the locals. */
static size_t count_words(const struct pb_py *py, struct _object *code)
{
    int64_t n = code ? pb_py_int(py, code, "co_nlocals") : 0;

    return n <= 0 ? 0 : SPECIAL_WORDS + (size_t)(n < LOCALS_MAX ? n : LOCALS_MAX);
}

/* Only where a frame is laid out as known: among its words is the address of its object. */
static void cache_optimizer(struct pb_torch *t, struct _object *frame, int depth,
                            struct _object *optimizer)
{
    const struct pb_py *py = &t->self->py;
    bool known = py->layout.frame_object_frame > 0 && !py->free_threaded && py->PyFrame_GetBack &&
                 py->PyFrame_GetCode;
    struct _object *code = known ? py->PyFrame_GetCode(frame) : NULL;
    struct _object *old = t->optimizers.cached.code;
    uintptr_t words[SPECIAL_WORDS + LOCALS_MAX];
    size_t n = count_words(py, code), at = SPECIAL_WORDS - 1;
    const void *from;
    bool its_own = false;

    if (!n ||
        !pb_ownmem_read(&from, (uintptr_t)frame + (uintptr_t)py->layout.frame_object_frame,
                        sizeof from) ||
        !pb_ownmem_read(words, (uintptr_t)from, n * sizeof *words))
        n = 0;
    for (size_t i = 0; i < SPECIAL_WORDS && n; i++)
        its_own |= words[i] == (uintptr_t)frame;
    while (at < n && (words[at] & ~TAG_MASK) != (uintptr_t)optimizer)
        at++;
    t->optimizers.cached = (struct pb_torch_cached_optimizer){NULL, optimizer, depth, (uint32_t)at};
    if (its_own && at < n) {
        t->optimizers.cached.code = code;
        code = NULL;
    }
    py->Py_DecRef(old);
    py->Py_DecRef(code);
}

struct _object *pb_torch_step_optimizer(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *found = cached_optimizer(t);

    for (int depth = STEP_DEPTH; !found && depth <= STEP_DEPTH_MAX; depth++) {
        struct _object *frame = pb_torch_frame(py, depth);

        found = pb_torch_frame_optimizer(t, frame);
        if (found && t->on)
            cache_optimizer(t, frame, depth, found);
        py->Py_DecRef(frame);
    }
    return found;
}
