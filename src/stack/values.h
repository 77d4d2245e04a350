/*
 * values.h - the values of a captured thread's variables.
 *
 * Owns: nothing; values go into the caller's arena.
 * Threads: one.
 * Fails: a variable whose value is not known to be its own says so in place of it.
 * Not here: how a thread is copied (capture.h), how a value looks (values/value.h).
 *
 * A copy of a thread holds references. What they lead to is read later, while the thread may run
 * on, and an object that it has released may be another one by then. So the thread is copied
 * again afterwards: a frame keeps alive what it refers to, and a value is right if its frame is
 * in the same call still and its variable refers to the same object. The values of a thread that
 * moves on too fast for this are read while it is held.
 */
#ifndef PB_STACK_VALUES_H
#define PB_STACK_VALUES_H

#include "stack/build.h"

/* Reads the values of the frames that are shown, into w->values; their code must be known. */
void pb_values_read(struct pb_py_codes *c, const struct pb_capture_opts *o, struct pb_work *w,
                    struct pb_arena *a);
/*
 * Takes away the values that may be another's: the thread has left their frame, or has bound the
 * variable anew. Returns whether there are none.
 */
bool pb_values_check(struct pb_py_codes *c, const struct pb_capture_opts *o, struct pb_work *w,
                     struct pb_arena *a);

#endif
