/*
 * pep768.h - asking the interpreter itself to run a script (PEP 768).
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: with a reason (older interpreter, switched off, no thread came by).
 * Not here: the first way (hijack.h).
 *
 * A path and a flag are written into a thread's state; the thread runs that
 * script at the next point where Python looks for requests. One that sleeps
 * in a system call made by CPython's own code is woken by ending that call
 * with EINTR, which CPython answers by looking, and by sleeping on.
 */
#ifndef PB_INJECT_PEP768_H
#define PB_INJECT_PEP768_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cpython/layout.h"

/* Where things are, as the interpreter describes itself. */
struct pb_pep768_layout {
    uint64_t eval_breaker; /* in a thread state */
    uint64_t support;      /* in a thread state: what the next two lie in */
    uint64_t pending, path;
    uint64_t path_size;
    uint64_t enabled; /* in the interpreter */
};

/* Every value is checked. */
int pb_pep768_layout(struct pb_pep768_layout *ret, const struct pb_py_layout *py,
                     struct pb_err *err);

#endif
