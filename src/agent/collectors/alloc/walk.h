/*
 * walk.h - the Python stack of the calling thread, without a call into Python.
 *
 * Owns: nothing.
 * Threads: any, with or without the GIL: the frames of a thread stand still while it is here, and
 * keep their code objects alive. Nothing is allocated and no lock is taken.
 * Fails: a version whose layout is not known, or proves to be another, is refused by pb_walk_init
 * or pb_walk_check; nobody may walk before both have said yes.
 * Not here: stacks of other threads (stack/, from outside).
 */
#ifndef PB_AGENT_COLLECTORS_ALLOC_WALK_H
#define PB_AGENT_COLLECTORS_ALLOC_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/py/api.h"
#include "base/err.h"
#include "cpython/layout.h"

struct pb_walker {
    const struct pb_py *py;
    struct pb_py_layout layout;
    bool careful; /* let the kernel read: the layout is not proven yet */
};

/* One frame as it lies in memory; `name` and `first` tell code objects at one address apart. */
struct pb_walk_frame {
    uintptr_t code, name;
    int64_t offset; /* the instruction's offset in bytes; negative: none was run */
    int32_t first;  /* line of the function */
};

struct pb_walk_text {
    char text[256]; /* UTF-8, the end of what is longer; ended by a zero */
    size_t len;
};

/* Finds the layout of this version. */
int pb_walk_init(struct pb_walker *w, const struct pb_py *py, struct pb_err *err);
/* GIL held: runs a few lines of Python and proves the layout with their stack. */
int pb_walk_check(struct pb_walker *w, struct pb_err *err);

/* Innermost first; at most `max`. *ret_more: there were more. */
size_t pb_walk(const struct pb_walker *w, struct pb_walk_frame *frames, size_t max, bool *ret_more);

/* What a frame of this very walk is called. False: it cannot be told. */
bool pb_walk_function(const struct pb_walker *w, const struct pb_walk_frame *f,
                      struct pb_walk_text *ret);
bool pb_walk_file(const struct pb_walker *w, const struct pb_walk_frame *f,
                  struct pb_walk_text *ret);
int pb_walk_line(const struct pb_walker *w, const struct pb_walk_frame *f);

#endif
