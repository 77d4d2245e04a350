/*
 * crash_home.h - what the tables of a crashing process say of its last minute.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: one.
 * Fails: never; what is not there is absent.
 * Not here: stacks, the record (crash_take.h).
 */
#ifndef PB_CLI_CRASH_CRASH_HOME_H
#define PB_CLI_CRASH_CRASH_HOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/text/arena.h"
#include "store/crash.h"

enum { PB_CRASH_MINUTE = 60 };

struct pb_crash_home {
    double rss_mb[PB_CRASH_MINUTE]; /* memory in the last minute, the oldest first */
    size_t nrss;
    const char *module, *phase; /* where the crashing thread was; NULL: not known */
    /* The collective that the crashing thread was in, or the last one that began; NULL: none. */
    const char *collective, *group;
    const char *collective_state; /* "done", "started"; NULL: not known */
    int64_t collective_seq;       /* INT64_MIN: not known */
    bool in_collective;
};

void pb_crash_home_read(struct pb_crash_home *ret, pid_t pid, const struct pb_crash_record *r,
                        struct pb_arena *a);

#endif
