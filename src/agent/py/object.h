/*
 * object.h - small questions to Python objects, each with its answer in C.
 *
 * Owns: nothing.
 * Threads: GIL held.
 * Fails: with NULL, -1 or false; an exception is never left behind. Asking may run code of the
 * program, which may let other threads run.
 * Not here: the functions of CPython themselves (api.h).
 */
#ifndef PB_AGENT_PY_OBJECT_H
#define PB_AGENT_PY_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/py/api.h"

/* Borrowed: a module that has been imported, or NULL. Never imports. */
struct _object *pb_py_loaded(const struct pb_py *py, const char *module);
/* module.name as a new reference, or NULL. */
struct _object *pb_py_attribute(const struct pb_py *py, const char *module, const char *name);
/* object.name() as a new reference, or NULL. */
struct _object *pb_py_call(const struct pb_py *py, struct _object *object, const char *name);

/* object.name as an integer, or -1. */
int64_t pb_py_int(const struct pb_py *py, struct _object *object, const char *name);
/* object.name() as an integer, or -1. */
int64_t pb_py_call_int(const struct pb_py *py, struct _object *object, const char *name);
/* Whether an object is true. Takes over the reference; NULL is false. */
bool pb_py_consume_true(const struct pb_py *py, struct _object *object);

/* What a weak reference points at, as a new reference; NULL when that is gone. */
struct _object *pb_py_referent(const struct pb_py *py, struct _object *weak);
/* The same borrowed, for comparing: it may be gone by the next instruction. */
struct _object *pb_py_peek_referent(const struct pb_py *py, struct _object *weak);

#endif
