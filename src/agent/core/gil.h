/*
 * gil.h - in and out of the interpreter.
 *
 * Owns: nothing.
 * Threads: any thread of ours that has no thread state yet.
 * Fails: pb_gil_enter is false when the interpreter is ending, or when a
 * Python 3.6 that never had threads did not reach a safe point in time. Once
 * it waits for the GIL itself it waits for as long as that takes: a caller who
 * promised an answer by then lets another thread give it.
 * Not here: what is done inside.
 *
 * A deadline of 0 never makes a GIL where there is none yet.
 */
#ifndef PB_AGENT_CORE_GIL_H
#define PB_AGENT_CORE_GIL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/self.h"

/* Once, with the agent of the process: forks are told to it from then on. */
void pb_gil_init(struct pb_self *self);
bool pb_gil_enter(struct pb_self *self, uint64_t deadline_ns, void **ret_state);
void pb_gil_leave(struct pb_self *self, void *state);

/*
 * Pending calls asked for from a thread of ours are noticed by a busy main
 * thread at once (true), or only when it next has to give the GIL away.
 */
bool pb_gil_pending_is_noticed(const struct pb_self *self);

/*
 * Queues a call on the main thread, from any thread of ours. False when there is no room or the
 * interpreter is ending. Its end waits for us only if it is known to tell us (hooks_set).
 */
bool pb_gil_add_pending(struct pb_self *self, int (*call)(void *arg));

/* False only in a Python 3.6 that never had threads: no thread of ours can enter it. */
bool pb_gil_is_made(const struct pb_self *self);

/* On the main thread: makes the GIL where there is none yet, so that threads of ours can enter. */
void pb_gil_make_here(struct pb_self *self);

/* What to say when pb_gil_enter fails or takes too long; "" when there is nothing special. */
const char *pb_gil_why_not(const struct pb_self *self);

#endif
