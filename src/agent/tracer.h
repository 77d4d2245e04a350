/*
 * tracer.h - who may read this process's memory where Yama asks for consent.
 *
 * Owns: nothing; the consent is the kernel's.
 * Threads: the agent's.
 * Fails: silently: whoever asks is then told by the kernel that it may not.
 * Not here: who may connect (control.h).
 */
#ifndef PB_AGENT_TRACER_H
#define PB_AGENT_TRACER_H

#include <sys/types.h>

#include "agent/core/self.h"

/*
 * Where Yama asks for consent: this process, which has come to the agent's socket with the rights
 * of the owner or of root, may read the memory of this one. One at a time: the last that came.
 */
void pb_tracer_allow(struct pb_self *self, pid_t pid);
/* Takes the consent back; does nothing where none was given. */
void pb_tracer_forbid(struct pb_self *self);

#endif
