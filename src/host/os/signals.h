/*
 * signals.h - names of signals; threads that leave them to another thread.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never.
 * Not here: handlers.
 */
#ifndef PB_HOST_OS_SIGNALS_H
#define PB_HOST_OS_SIGNALS_H

#include <signal.h>

#include "host/text/arena.h"

/* "SIGSEGV", or "signal 40" in the arena. */
const char *pb_signal_name(int signal, struct pb_arena *a);

/*
 * Around pthread_create: the new thread gets no signals but those that it causes itself by a fault.
 * If these were blocked as well, a fault would end the process without asking its handler.
 */
void pb_signals_block(sigset_t *ret_before);
void pb_signals_restore(const sigset_t *before);

#endif
