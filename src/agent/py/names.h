/*
 * names.h - names of attributes and keys as Python has them, made once.
 *
 * Owns: a few hundred interned strings, kept for ever.
 * Threads: GIL held.
 * Fails: never: a name that finds no place is looked up as Python would.
 * Not here: which functions of Python there are (api.h).
 *
 * PyObject_GetAttrString makes a new string at every call, which Python's cache of attributes does
 * not know: it searches every class that an object's own one inherits from. With a string that is
 * always the same one a lookup costs a tenth. Names come as C strings in many places, so the two
 * functions that take them are replaced in the agent's table, for all.
 */
#ifndef PB_AGENT_PY_NAMES_H
#define PB_AGENT_PY_NAMES_H

#include <stdint.h>

#include "agent/py/api.h"

enum { PB_NAMES = 512 }; /* a power of two */

struct pb_names {
    struct pb_name {
        uint32_t hash;
        struct _object *object;
        const char *text; /* its own */
    } list[PB_NAMES];
    unsigned n;
    const struct pb_py *py;
    struct _object *(*get_attribute)(struct _object *, const char *);
    struct _object *(*get_item)(struct _object *, const char *);
};

/* Puts ours in place of Python's. Before anybody uses the table. */
void pb_names_use(struct pb_names *w, struct pb_py *py);

#endif
