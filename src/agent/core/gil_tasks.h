/*
 * gil_tasks.h - small things that need the GIL and that nobody waits for.
 *
 * Owns: at most one thread, which ends when nothing is left to do.
 * Threads: pb_gil_task_add from any; the agent's thread never waits for the GIL.
 * Fails: what cannot be done while the interpreter is ending is left undone.
 * Not here: what the tasks do (lifecycle.c has the list).
 */
#ifndef PB_AGENT_CORE_GIL_TASKS_H
#define PB_AGENT_CORE_GIL_TASKS_H

#include "agent/core/self.h"

enum pb_gil_task {
    PB_GIL_TASK_INTERRUPT = 1, /* interrupt jobs */
    PB_GIL_TASK_FORGET = 2,    /* `_` of clients that left */
    PB_GIL_TASK_CLEANUP = 4,   /* hooks and glue out of the interpreter */
    PB_GIL_TASK_HOOKS = 8,     /* hooks into it */
    PB_GIL_TASK_YIELD = 16, /* only take the GIL: a busy main thread then sees its pending calls */
    PB_GIL_TASK_COLLECT = 32, /* collectors look inside */
};

void pb_gil_task_add(struct pb_self *self, enum pb_gil_task task);

#endif
