/*
 * exits.h - how a process ended that is not our child.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never; what the kernel does not tell is unknown.
 * Not here: when it ended, and who is told.
 */
#ifndef PB_HOST_PROCESS_EXITS_H
#define PB_HOST_PROCESS_EXITS_H

#include "host/text/arena.h"

/* As wait() has it, by the pidfd of one that has ended; -1: the kernel does not tell (6.15). */
int pb_exit_code(int pidfd);
/* "SIGKILL", "exit 1"; NULL for -1. */
const char *pb_exit_text(int code, struct pb_arena *a);

#endif
