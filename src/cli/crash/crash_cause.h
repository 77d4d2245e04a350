/*
 * crash_cause.h - why a process crashed, in words.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: any.
 * Fails: never; NULL where there is nothing to say.
 * Not here: how the record came about (store/crash.h).
 */
#ifndef PB_CLI_CRASH_CRASH_CAUSE_H
#define PB_CLI_CRASH_CRASH_CAUSE_H

#include "host/text/arena.h"
#include "store/crash.h"
#include "stack/snapshot.h"

/* "nothing is mapped at 0x0"; thread: the one that crashed, as read, or NULL. */
const char *pb_crash_why(const struct pb_crash_record *r, const struct pb_thread *thread,
                         bool overflown, struct pb_arena *a);

#endif
