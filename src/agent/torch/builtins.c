#include "agent/torch/builtins.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/torch/torch.h"
#include "base/ownmem.h"

/* Offsets in a function object (PyCFunctionObject). */
#define TABLE_AT 16
#define VECTORCALL_AT 48
#define OBJECT_BYTES 56
#define BINDING_FLAGS 0x70 /* flags that say how it is bound, not how it is called */
#define WITH_TUPLE (PB_PY_VARARGS | PB_PY_KEYWORDS)

typedef struct _object *with_tuple(struct _object *, struct _object *, struct _object *);

/* Arguments of a call, as a tuple or as an array. */
struct arguments {
    struct _object *tuple, *const *array;
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
        pb_torch_on_record_enter(t, name, result);
}

static void after_exit(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    (void)result;
    if (t->optimizers.record && argument(t, a, 0) == t->optimizers.record)
        pb_torch_on_record_exit(t);
}

static void after_grad_mode(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    (void)a;
    (void)result;
    if (!t->optimizers.record)
        pb_torch_on_grad_mode(t);
}

static void after_stack(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    (void)a;
    pb_torch_norm_after_stack(t, result);
}

static void after_norm(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    pb_torch_norm_after_norm(t, argument(t, a, 0), result);
}

static void after_clamp(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    (void)a;
    (void)result;
    pb_torch_norm_after_clamp(t);
}

/* (gradients, found_inf, inverse of the scale), after backward and before the step. */
static void after_unscale(struct pb_torch *t, const struct arguments *a, struct _object *result)
{
    struct _object *inverse = argument(t, a, 2);

    (void)result;
    if (inverse)
        pb_torch_norm_after_unscale(t, inverse);
}

/* The functions. */
static const struct {
    const char *path; /* attributes, from the module torch on */
    void (*after)(struct pb_torch *t, const struct arguments *a, struct _object *result);
    bool is_private;  /* no program has it in a dictionary */
} functions[PB_TORCH_BUILTIN_COUNT] = {
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

/* Passes a result on, and looks at it. */
static struct _object *returned(struct pb_torch *t, int id, const struct arguments *a,
                                struct _object *result)
{
    if (result && t->on)
        functions[id].after(t, a, result);
    return result;
}

static struct _object *call_tuple(int id, struct _object *self, struct _object *args,
                                  struct _object *kwargs)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    struct arguments a = {.tuple = args, .n = (size_t)t->self->py.PyTuple_Size(args)};
    with_tuple *original = (with_tuple *)(uintptr_t)t->builtins.list[id].original;

    return returned(t, id, &a, original(self, args, kwargs));
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
    pb_torch_vectorcall *was = (pb_torch_vectorcall *)(uintptr_t)t->builtins.list[id].original;

    return returned(t, id, &a, was ? was(function, args, nargs, names)
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

/* Through the kernel, which says so where it must not, instead of a fault. */
static bool is_writable(void *at)
{
    void *value;
    struct iovec here = {&value, sizeof value}, there = {at, sizeof value};

    return pb_ownmem_read(&value, (uintptr_t)at, sizeof value) &&
           syscall(SYS_process_vm_writev, getpid(), &here, 1, &there, 1, 0) == (long)sizeof value;
}

/* The table behind a function object; NULL when the object is not laid out as known. */
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
    bool yes = py->api.vectorcall && size && py->PyLong_AsLongLong(size) == OBJECT_BYTES;

    py->PyErr_Clear();
    py->Py_DecRef(size);
    py->Py_DecRef(type);
    return yes;
}

/* A function that takes a tuple has no vectorcall; one that takes an array has. */
static void find_pointer(struct pb_torch *t, int id)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_builtin *b = &t->builtins.list[id];
    struct pb_py_method *table = table_of(py, b->object);
    void **vectorcall = table ? (void **)((char *)b->object + VECTORCALL_AT) : NULL;
    bool tuple = table && (table->flags & ~BINDING_FLAGS) == WITH_TUPLE;

    if (!table)
        return;
    if (!py->api.vectorcall_always && functions[id].is_private) {
        if (tuple && is_writable(&table->call)) {
            b->pointer = (void **)&table->call;
            b->ours = (void *)(uintptr_t)ours[id].tuple;
        }
    } else if (has_vectorcall(py, b->object) && (*vectorcall == NULL) == tuple) {
        b->pointer = vectorcall;
        b->ours = (void *)(uintptr_t)ours[id].vector;
    }
    b->original = b->pointer ? *b->pointer : NULL;
}

bool pb_torch_builtin_install(struct pb_torch *t, enum pb_torch_builtin_id id)
{
    struct pb_torch_builtin *b = &t->builtins.list[id];

    if (!b->object) {
        b->object = find_object(&t->self->py, functions[id].path);
        find_pointer(t, id);
    }
    if (!b->pointer)
        return false;
    /* Another tool's on top may call ours: it is left alone. */
    if (*b->pointer == b->original)
        __atomic_store_n(b->pointer, b->ours, __ATOMIC_RELEASE);
    return *b->pointer == b->ours;
}

void pb_torch_builtins_restore(struct pb_torch *t)
{
    for (int i = 0; i < PB_TORCH_BUILTIN_COUNT; i++) {
        struct pb_torch_builtin *b = &t->builtins.list[i];

        if (b->pointer && *b->pointer == b->ours)
            __atomic_store_n(b->pointer, b->original, __ATOMIC_RELEASE);
    }
}
