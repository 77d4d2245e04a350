/*
 * locals.h - the local variables of a copied frame.
 *
 * Owns: nothing; values go into the caller's arena; names belong to the code object.
 * Threads: one.
 * Fails: an unbound variable is left out, an unreadable one says so.
 * Not here: how a value looks (value.h).
 */
#ifndef PB_STACK_PYTHON_LOCALS_H
#define PB_STACK_PYTHON_LOCALS_H

#include "stack/python/code.h"

struct pb_local {
    const char *name, *value;
    bool argument; /* an argument of the function, rather than a variable that it made itself */
};

/* A variable and the reference that it holds: an address, or a tagged number (3.14). */
struct pb_py_slot {
    const char *name;
    uint64_t ref;
    bool argument;
};

/* The bound variables of a frame; names belong to the code object. */
size_t pb_py_slots(struct pb_py_codes *c, struct pb_py_code *code,
                   const struct pb_py_raw_frame *f, struct pb_arena *a, struct pb_py_slot **ret);
/* In the order of the code object: arguments first. Returns how many there are. */
size_t pb_py_locals(struct pb_py_codes *c, struct pb_py_code *code,
                    const struct pb_py_raw_frame *f, struct pb_arena *a, struct pb_local **ret);
/* globals.c: the same of a module's own code: the variables of the module. */
size_t pb_py_globals(struct pb_py_reader *r, const struct pb_py_raw_frame *f,
                     struct pb_local **ret);

#endif
