/*
 * Functions of torch's own C code that tell what nothing else does: steps of optimizers, norms of
 * gradients, how losses were scaled.
 *
 * What Python sees of them stays as it is, so that torch.compile finds what it knows: the same
 * objects in the same places, with the same hash. Replaced is the pointer that Python calls such
 * an object through (vectorcall), by a function that does what would have been done. Before Python
 * 3.9 not every call goes that way; there the table behind the object (PyMethodDef) is changed, for
 * functions that nobody has in a dictionary: it is what their hash is made of.
 */
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/collect/torch/torch.h"
#include "agent/ownmem.h"

/* In a function object, behind what every object has. */
#define TABLE_AT 16
#define VECTORCALL_AT 48
#define OBJECT_BYTES 56
#define ANY_OWNER 0x70 /* flags that say how it is bound, not how it is called */
#define WITH_TUPLE (PB_PY_VARARGS | PB_PY_KEYWORDS)

typedef struct _object *with_tuple(struct _object *, struct _object *, struct _object *);

struct arguments {
    struct _object *tuple, *const *array; /* either */
    size_t n;
};

static struct _object *argument(const struct pb_torch *t, const struct arguments *a, size_t i)
{
    if (i >= a->n)
        return NULL;
    return a->tuple ? t->self->py.PyTuple_GetItem(a->tuple, (ssize_t)i) : a->array[i];
}

static void after_enter(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    struct _object *name = argument(t, a, 0);

    if (name)
        pb_torch_on_enter(t, name, result);
}

static void after_exit(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    (void)result;
    if (t->step_record && argument(t, a, 0) == t->step_record)
        pb_torch_on_exit(t);
}

static void after_grad_mode(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    (void)a;
    (void)result;
    if (!t->step_record)
        pb_torch_on_grad_mode(t);
}

/* The norm of all gradients is that of their norms, which were stacked for it. */
static void after_stack(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    (void)a;
    t->stacked = result;
}

/* Has every rank the whole of this tensor, which is spread over ranks in name only? */
static bool is_replicated(const struct pb_py *py, struct _object *tensor)
{
    struct _object *places = py->PyObject_GetAttrString(tensor, "placements");
    ssize_t n = places ? py->PyTuple_Size(places) : -1;
    bool yes = n >= 0;

    for (ssize_t i = 0; yes && i < n; i++) {
        struct _object *is = py->PyObject_GetAttrString(py->PyTuple_GetItem(places, i),
                                                        "is_replicate");
        struct _object *answer = is ? py->PyObject_CallFunction(is, NULL) : NULL;

        yes = answer && py->PyObject_IsTrue(answer) == 1;
        py->Py_DecRef(answer);
        py->Py_DecRef(is);
    }
    py->PyErr_Clear();
    py->Py_DecRef(places);
    return yes;
}

static void note_norm(struct pb_torch *t, struct _object *norm)
{
    const struct pb_py *py = &t->self->py;
    struct _object *local = py->PyObject_GetAttrString(norm, "_local_tensor");

    py->PyErr_Clear();
    if (!local || is_replicated(py, norm))
        pb_torch_value_note(t, &t->norm, local ? local : norm);
    py->Py_DecRef(local);
}

static void after_norm(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    if (t->stacked && argument(t, a, 0) == t->stacked &&
        pb_torch_called_from(t, t->clip_globals))
        note_norm(t, result);
}

/* FullyShardedDataParallel.clip_grad_norm_ cuts the factor that it has made of the norm. */
static void after_clamp(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    const struct pb_py *py = &t->self->py;
    struct _object *frame, *locals, *norm;

    (void)a;
    (void)result;
    if (!t->fsdp_globals || py->PyEval_GetGlobals() != t->fsdp_globals)
        return;
    frame = pb_torch_frame(py, 0);
    locals = frame ? py->PyObject_GetAttrString(frame, "f_locals") : NULL;
    norm = locals ? py->PyMapping_GetItemString(locals, "total_norm") : NULL;
    py->PyErr_Clear();
    if (norm)
        note_norm(t, norm);
    py->Py_DecRef(norm);
    py->Py_DecRef(locals);
    py->Py_DecRef(frame);
}

/* (gradients, found_inf, inverse of the scale), after backward and before the step. */
static void after_unscale(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    struct _object *inverse = argument(t, a, 2);

    (void)result;
    if (inverse)
        pb_torch_value_note(t, &t->unscale, inverse);
}

/* Where a function is, by attributes of the module torch. */
static const struct what {
    const char *path;
    void (*after)(struct pb_torch *t, const struct arguments *a, struct _object *result);
    bool is_private; /* nobody else looks at it */
} whats[PB_TORCH_BUILTIN_COUNT] = {
    [PB_TORCH_BUILTIN_ENTER] = {"ops.profiler._record_function_enter_new._op", after_enter, true},
    [PB_TORCH_BUILTIN_EXIT] = {"ops.profiler._record_function_exit._RecordFunction._op",
                               after_exit, true},
    [PB_TORCH_BUILTIN_ENTER_OLD] = {"ops.profiler._record_function_enter._op", after_enter, true},
    [PB_TORCH_BUILTIN_EXIT_OLD] = {"ops.profiler._record_function_exit._op", after_exit, true},
    [PB_TORCH_BUILTIN_GRAD_MODE] = {"_C._set_grad_enabled", after_grad_mode, false},
    [PB_TORCH_BUILTIN_STACK] = {"stack", after_stack, false},
    [PB_TORCH_BUILTIN_NORM] = {"_C._linalg.linalg_vector_norm", after_norm, false},
    [PB_TORCH_BUILTIN_NORM_OLD] = {"_C._VariableFunctions.norm", after_norm, false},
    [PB_TORCH_BUILTIN_MAX_OLD] = {"max", after_norm, false},
    [PB_TORCH_BUILTIN_UNSCALE] = {"_amp_foreach_non_finite_check_and_unscale_",
                                  after_unscale, false},
    [PB_TORCH_BUILTIN_CLAMP] = {"clamp", after_clamp, false},
};

static struct _object *seen(struct pb_torch *t, int id, const struct arguments *a,
                            struct _object *result)
{
    if (result && t->on)
        whats[id].after(t, a, result);
    return result;
}

static struct _object *call_tuple(int id, struct _object *self, struct _object *args,
                                  struct _object *kwargs)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    struct arguments a = {.tuple = args, .n = (size_t)t->self->py.PyTuple_Size(args)};

    return seen(t, id, &a, ((with_tuple *)(uintptr_t)t->builtins[id].was)(self, args, kwargs));
}

/* The keywords of a call and their values, which stand behind the other arguments. */
static struct _object *dict_of(const struct pb_py *py, struct _object *const *values,
                               struct _object *names)
{
    struct _object *dict = py->PyDict_New();
    ssize_t n = py->PyTuple_Size(names);

    for (ssize_t i = 0; dict && i < n; i++) {
        if (py->PyDict_SetItem(dict, py->PyTuple_GetItem(names, i), values[i]) == 0)
            continue;
        py->Py_DecRef(dict);
        dict = NULL;
    }
    return dict;
}

/* As Python calls a function that wants a tuple and a dictionary. */
static struct _object *call_function(const struct pb_py *py, struct _object *function,
                                     const struct arguments *a, struct _object *names)
{
    struct _object *kwargs = names ? dict_of(py, a->array + a->n, names) : NULL;
    struct _object *args = names && !kwargs ? NULL : py->PyTuple_New((ssize_t)a->n);
    struct _object *result = NULL;

    for (size_t i = 0; args && i < a->n; i++) {
        py->Py_IncRef(a->array[i]);
        py->PyTuple_SetItem(args, (ssize_t)i, a->array[i]);
    }
    if (args)
        result = ((with_tuple *)(uintptr_t)py->PyCFunction_GetFunction(function))(
            py->PyCFunction_GetSelf(function), args, kwargs);
    py->Py_DecRef(args);
    py->Py_DecRef(kwargs);
    return result;
}

static struct _object *call_vector(int id, struct _object *function, struct _object *const *args,
                                   size_t nargs, struct _object *names)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    struct arguments a = {.array = args, .n = nargs & (SIZE_MAX >> 1)};
    pb_torch_vectorcall *was = (pb_torch_vectorcall *)(uintptr_t)t->builtins[id].was;

    return seen(t, id, &a, was ? was(function, args, nargs, names)
                               : call_function(&t->self->py, function, &a, names));
}

/* A C function has no room to say which one it is: each has its own two. */
#define X(id)                                                                                     \
    static struct _object *tuple_##id(struct _object *self, struct _object *args,                 \
                                      struct _object *kwargs)                                     \
    {                                                                                             \
        return call_tuple(PB_TORCH_BUILTIN_##id, self, args, kwargs);                             \
    }                                                                                             \
    static struct _object *vector_##id(struct _object *function, struct _object *const *args,     \
                                       size_t nargs, struct _object *names)                       \
    {                                                                                             \
        return call_vector(PB_TORCH_BUILTIN_##id, function, args, nargs, names);                  \
    }
PB_TORCH_BUILTINS(X)
#undef X

static const struct {
    with_tuple *tuple;
    pb_torch_vectorcall *vector;
} ours[PB_TORCH_BUILTIN_COUNT] = {
#define X(id) {tuple_##id, vector_##id},
    PB_TORCH_BUILTINS(X)
#undef X
};

static struct _object *find_object(const struct pb_py *py, const char *path)
{
    struct _object *modules = py->PyImport_GetModuleDict(), *next;
    struct _object *at = modules ? py->PyDict_GetItemString(modules, "torch") : NULL;
    char name[PB_TORCH_PATH];

    py->Py_IncRef(at);
    while (at && *path) {
        size_t n = strcspn(path, ".");

        if (n >= sizeof name)
            break;
        memcpy(name, path, n);
        name[n] = '\0';
        path += n + (path[n] == '.');
        next = py->PyObject_GetAttrString(at, name);
        py->PyErr_Clear();
        py->Py_DecRef(at);
        at = next;
    }
    return at;
}

/* The kernel reads and writes for us: it says so where it must not. */
static bool is_writable(void *at)
{
    void *value;
    struct iovec here = {&value, sizeof value}, there = {at, sizeof value};

    return pb_ownmem_read(&value, (uintptr_t)at, sizeof value) &&
           syscall(SYS_process_vm_writev, getpid(), &here, 1, &there, 1, 0) == (long)sizeof value;
}

/* Is this object laid out as we know it? */
static struct pb_py_method *table_of(const struct pb_py *py, struct _object *object)
{
    void *function = object ? py->PyCFunction_GetFunction(object) : NULL;
    struct pb_py_method *m, copy;

    py->PyErr_Clear();
    if (!function)
        return NULL;
    memcpy(&m, (const char *)object + TABLE_AT, sizeof m);
    if (!pb_ownmem_read(&copy, (uintptr_t)m, sizeof copy) ||
        (void *)(uintptr_t)copy.call != function ||
        copy.flags != py->PyCFunction_GetFlags(object))
        return NULL;
    return m;
}

static bool has_vectorcall(const struct pb_py *py, struct _object *object)
{
    struct _object *type = py->PyObject_Type(object);
    struct _object *size = type ? py->PyObject_GetAttrString(type, "__basicsize__") : NULL;
    bool yes = py->minor >= 8 && size && py->PyLong_AsLongLong(size) == OBJECT_BYTES;

    py->PyErr_Clear();
    py->Py_DecRef(size);
    py->Py_DecRef(type);
    return yes;
}

/* A function that takes a tuple has no vectorcall; one that takes an array has. */
static void find_place(struct pb_torch *t, int id)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_builtin *b = &t->builtins[id];
    struct pb_py_method *table = table_of(py, b->object);
    void **place = table ? (void **)((char *)b->object + VECTORCALL_AT) : NULL;
    bool tuple = table && (table->flags & ~ANY_OWNER) == WITH_TUPLE;

    if (!table)
        return;
    if (py->minor < 9 && whats[id].is_private) {
        if (tuple && is_writable(&table->call)) {
            b->place = (void **)&table->call;
            b->ours = (void *)(uintptr_t)ours[id].tuple;
        }
    } else if (has_vectorcall(py, b->object) && (*place == NULL) == tuple) {
        b->place = place;
        b->ours = (void *)(uintptr_t)ours[id].vector;
    }
    b->was = b->place ? *b->place : NULL;
}

bool pb_torch_builtin_put(struct pb_torch *t, enum pb_torch_builtin_id id)
{
    struct pb_torch_builtin *b = &t->builtins[id];

    if (!b->object) {
        b->object = find_object(&t->self->py, whats[id].path);
        find_place(t, id);
    }
    if (!b->place)
        return false;
    /* Somebody else's on top may call ours: it is left alone. */
    if (*b->place == b->was)
        __atomic_store_n(b->place, b->ours, __ATOMIC_RELEASE);
    return *b->place == b->ours;
}

void pb_torch_builtins_enter(struct pb_torch *t, struct pb_err *err)
{
    const struct pb_py *py = &t->self->py;
    struct _object *total = pb_torch_attribute(py, "torch.nn.utils.clip_grad", "_get_total_norm");
    bool seen;

    t->stacked = NULL;
    if (!t->clip_globals)
        t->clip_globals = pb_torch_attribute(py, "torch.nn.utils.clip_grad", "__dict__");
    pb_torch_builtin_put(t, PB_TORCH_BUILTIN_STACK);
    seen = pb_torch_builtin_put(t, PB_TORCH_BUILTIN_NORM);
    pb_torch_builtin_put(t, PB_TORCH_BUILTIN_UNSCALE);
    if (!total) {
        seen |= pb_torch_builtin_put(t, PB_TORCH_BUILTIN_NORM_OLD);
        pb_torch_builtin_put(t, PB_TORCH_BUILTIN_MAX_OLD);
    }
    py->Py_DecRef(total);
    pb_torch_builtins_look(t);
    if (!seen)
        pb_err_set(err, PB_FAIL, "norms of gradients and scales of losses are not seen%s",
                   py->minor < 8 ? " before Python 3.8" : "");
}

void pb_torch_builtins_look(struct pb_torch *t)
{
    if (!t->fsdp_globals)
        t->fsdp_globals = pb_torch_attribute(
            &t->self->py, "torch.distributed.fsdp.fully_sharded_data_parallel", "__dict__");
    if (t->fsdp_globals)
        pb_torch_builtin_put(t, PB_TORCH_BUILTIN_CLAMP);
}

void pb_torch_builtins_leave(struct pb_torch *t)
{
    for (int i = 0; i < PB_TORCH_BUILTIN_COUNT; i++) {
        struct pb_torch_builtin *b = &t->builtins[i];

        if (b->place && *b->place == b->ours)
            __atomic_store_n(b->place, b->was, __ATOMIC_RELEASE);
    }
}
