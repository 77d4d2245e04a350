/*
 * chores.h - small things that need the GIL and that nobody waits for.
 *
 * Owns: at most one thread, which ends when nothing is left to do.
 * Threads: pb_chores_add from any; the agent's thread never waits for the GIL.
 * Fails: what cannot be done while the interpreter is ending is left undone.
 */
#ifndef PB_AGENT_CHORES_H
#define PB_AGENT_CHORES_H

#include "agent/self.h"

enum pb_chore {
    PB_CHORE_THROW = 1,   /* interrupt jobs */
    PB_CHORE_FORGET = 2,  /* `_` of clients that left */
    PB_CHORE_CLEANUP = 4, /* hooks and glue out of the interpreter */
    PB_CHORE_HOOKS = 8,   /* hooks into it */
    PB_CHORE_NUDGE = 16,  /* only take the GIL: a busy main thread then sees its pending calls */
    PB_CHORE_COLLECT = 32, /* collectors look inside */
};

void pb_chores_add(struct pb_self *self, enum pb_chore chore);

#endif
