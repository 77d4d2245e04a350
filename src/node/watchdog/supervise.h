/*
 * supervise.h - `probing serve` as two processes: one that reads strangers' bytes and answers, and
 * one that starts it again when that killed it.
 *
 * Owns: the server process; the supervisor's copies of listening sockets and the journal.
 * Threads: one.
 * Fails: when no process can be made, or the server dies again and again before it answers.
 * Not here: what the server does (serve/loop.c), whom a death is blamed on (journal.h).
 *
 * Whichever of the two is killed, nothing is left behind: the server dies with its supervisor, and
 * the lock of the data folder is held by both.
 */
#ifndef PB_NODE_WATCHDOG_SUPERVISE_H
#define PB_NODE_WATCHDOG_SUPERVISE_H

#include <stdbool.h>

#include "base/err.h"
#include "node/watchdog/journal.h"
#include "node/watchdog/keeper.h"

struct pb_supervised {
    struct pb_journal *journal;
    struct pb_keeper *keeper;
    void (*started)(void *arg);                  /* in the supervisor, once the first one runs */
    /* In the supervisor: this ring ended a server. why: "Segmentation fault" */
    void (*guilty)(const struct pb_ring_identity *ring, const char *why, void *arg);
    void (*say)(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* into the log */
    void *arg;
};

enum pb_role {
    PB_ROLE_SERVER,     /* this process is the first server */
    PB_ROLE_SUCCESSOR,  /* a server after one that died */
    PB_ROLE_SUPERVISOR, /* the server has ended; *ret_status as an exit code */
};

/* Returns in each server that is started, and in the end in the supervisor. -1: no process. */
int pb_supervise(const struct pb_supervised *s, int *ret_status, struct pb_err *err);

#endif
