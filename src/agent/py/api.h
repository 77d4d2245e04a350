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
#include <sys/types.h>

struct _object;

/* PyMethodDef, the same from 3.6 to 3.14. */
struct pb_py_method {
    const char *name;
    struct _object *(*call)(struct _object *self, struct _object *args);
    int flags;
    const char *doc;
};

enum { PB_PY_VARARGS = 1, PB_PY_NOARGS = 4, PB_PY_FILE_INPUT = 257 };

struct pb_py {
#define PB_PY(type, name, args) type(*name) args;
#define PB_PY_MAYBE(type, name, args) type(*name) args;
#include "agent/py/api.def"
#undef PB_PY
#undef PB_PY_MAYBE
    struct _object **PyExc_KeyboardInterrupt, **PyExc_RuntimeError;
    int major, minor;
    bool free_threaded;
    char version[24]; /* "3.11.7" */
};

/* 0, or -ENOENT when this process has no CPython (3.6 or later) in it. */
int pb_py_find(struct pb_py *py);

/* Kernel id of a thread that Python knows by ident; 0 when it cannot be told. */
pid_t pb_py_tid(unsigned long ident);

#endif
