/*
 * patience.h - a command that waits for memory that does not come ends all the same.
 *
 * Owns: a thread, from the first read of a process's memory on.
 * Threads: called once, at the start.
 * Fails: never; without a thread the command waits.
 * Not here: why it may not come (host/process/stall.h); the node's patience (watchdog/supervise.c).
 */
#ifndef PB_CLI_PATIENCE_H
#define PB_CLI_PATIENCE_H

void pb_patience_start(void);

#endif
