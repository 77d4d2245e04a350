/*
 * api.h - CPython's functions, found by name at run time.
 *
 * Owns: a table of pointers; they stay valid as long as the process lives.
 * Threads: filled once, then any.
 * Fails: pb_py_find says which name is missing. Nothing links to libpython.
 * Not here: when it is allowed to call them (gil.h).
 */
#ifndef PB_AGENT_PY_API_H
#define PB_AGENT_PY_API_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "cpython/layout.h"

struct _object;

/* PyMethodDef, the same from 3.6 to 3.14. */
struct pb_py_method {
    const char *name;
    struct _object *(*call)(struct _object *self, struct _object *args);
    int flags;
    const char *doc;
};

/* PyType_Spec and what goes with it, the same from 3.6 to 3.14. */
struct pb_py_slot {
    int id;
    void *value;
};

struct pb_py_type_spec {
    const char *name;
    int basicsize, itemsize;
    unsigned flags;
    struct pb_py_slot *slots;
};

struct pb_py_getset {
    const char *name;
    struct _object *(*get)(struct _object *self, void *closure);
    int (*set)(struct _object *self, struct _object *value, void *closure);
    const char *doc;
    void *closure;
};

/* PyMemAllocatorEx, the same from 3.5 to 3.15. */
struct pb_py_allocator {
    void *ctx;
    void *(*get)(void *ctx, size_t size);
    void *(*get_zeroed)(void *ctx, size_t n, size_t size);
    void *(*resize)(void *ctx, void *block, size_t size);
    void (*release)(void *ctx, void *block);
};

enum { PB_PY_RAW, PB_PY_MEM, PB_PY_OBJ, PB_PY_DOMAINS };

enum {
    PB_PY_TP_CALL = 50,
    PB_PY_TP_DEALLOC = 52,
    PB_PY_TP_DOC = 56,
    PB_PY_TP_METHODS = 64,
    PB_PY_TP_REPR = 66,
    PB_PY_TP_GETSET = 73,
    PB_PY_TYPE_FLAGS = 1 << 18, /* it has a version tag, as all have */
};

enum {
    PB_PY_VARARGS = 1,
    PB_PY_KEYWORDS = 2,
    PB_PY_NOARGS = 4,
    PB_PY_O = 8,
    PB_PY_FASTCALL = 128, /* where api.fastcall */
    PB_PY_FILE_INPUT = 257,
};

struct pb_py {
#define PB_PY(type, name, args) type(*name) args;
#define PB_PY_MAYBE(type, name, args) type(*name) args;
#include "agent/py/api.def"
#undef PB_PY
#undef PB_PY_MAYBE
    struct _object **PyExc_AttributeError, **PyExc_KeyboardInterrupt, **PyExc_RuntimeError,
        **PyExc_TypeError, **PyExc_ValueError;
    struct _object *none; /* None itself */
    const void *runtime;  /* _PyRuntime, which describes itself from 3.13 on; or NULL */
    int major, minor;
    struct pb_py_api api;       /* what the C API of this version promises */
    struct pb_py_layout layout; /* all zero where pb_py_own_layout fails */
    bool free_threaded;
    char version[24]; /* "3.11.7" */
};

/* 0, or -ENOENT when this process has no CPython (3.6 or later) in it. */
int pb_py_find(struct pb_py *py);

/*
 * How this version lays out its objects. An unknown version is refused with the reason: whoever
 * needs the layout (frames, arenas) goes without, and says so.
 */
int pb_py_own_layout(struct pb_py_layout *ret, const struct pb_py *py, struct pb_err *err);

/* Kernel id of a thread that Python knows by ident; 0 when it cannot be told. */
pid_t pb_py_tid(unsigned long ident);

#endif
