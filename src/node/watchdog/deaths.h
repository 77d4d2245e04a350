/*
 * deaths.h - what a server does when a signal says that it is broken: it puts a page back that a
 * ring or a mapped file has lost and goes on, or says what the thread was at that dies.
 *
 * Owns: the handlers of SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL of this process.
 * Threads: watch and unwatch from one; the handlers run in any.
 * Fails: never; without a handler a death is just not explained.
 * The handlers know the ring by pb_reader_guard: whoever reads one says so.
 * Not here: whom a death is blamed on (journal.h).
 */
#ifndef PB_NODE_WATCHDOG_DEATHS_H
#define PB_NODE_WATCHDOG_DEATHS_H

struct pb_journal;

/* Once in a process. From then on a ring that is mapped may be cut off. j may be NULL. */
void pb_deaths_watch(struct pb_journal *j);

#endif
