/*
 * awaits.h - where the coroutines stand that an event loop waits for.
 *
 * Owns: nothing; the list goes into the caller's arena.
 * Threads: one.
 * Fails: what cannot be read ends the list; nothing before 3.11.
 * Not here: frames that run (frames.h), judging.
 *
 * A loop that waits has no coroutine on its stack: they are suspended. The one that it was started
 * for is a variable of run_until_complete(); what it awaits lies on top of its own stack.
 */
#ifndef PB_STACK_PYTHON_AWAITS_H
#define PB_STACK_PYTHON_AWAITS_H

#include "stack/python/code.h"

struct pb_py_await {
    const char *func, *file;
    int line;
};

/* Innermost first, from the loop that these frames run; returns how many. */
size_t pb_py_awaits(struct pb_py_codes *c, const struct pb_py_raw_stack *s,
                    struct pb_py_code *const *codes, struct pb_arena *a, struct pb_py_await **ret);

#endif
