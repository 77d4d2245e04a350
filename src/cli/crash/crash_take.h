/*
 * crash_take.h - a crashing process is read from outside, while it waits.
 *
 * Owns: the process that it runs in, which the crashing one has started (agent/collectors/crash).
 * Threads: one.
 * Fails: with a report that says what could not be read, or with none: the crashing process goes
 * on when its time is up.
 * Not here: showing reports (crashes.c), their folder (host/os/crash_files.h).
 */
#ifndef PB_CLI_CRASH_CRASH_TAKE_H
#define PB_CLI_CRASH_CRASH_TAKE_H

#include "cli/cmd.h"
#include "host/text/buf.h"
#include "host/os/crash_files.h"
#include "store/crash.h"
#include "stack/snapshot.h"

/* what: "PID:ADDRESS" of a struct pb_crash_record. */
int pb_crash_take(struct pb_ctx *ctx, const char *what);

/* One crash on its way to a report. */
struct pb_crash_taken {
    pid_t pid;
    struct pb_crash_record record;
    const char *environ; /* variables of the process, a zero behind each; or NULL */
    size_t environ_len;
    const struct pb_json *exception; /* exception as the process describes it; NULL for a signal */
    struct pb_snapshot *snapshot;    /* NULL: see trouble */
    struct pb_thread *thread;        /* the one that crashed, in the snapshot; or NULL */
    bool overflown;                  /* whether the stack of the thread overflowed */
    const char *trouble;             /* why there are no stacks, or NULL */
    struct pb_buf facts;             /* JSON about the process itself, read while it is there */
    const char *cause;               /* cause of the crash in one line */
    uint64_t began_ns;
    double read_ms;
    char id[PB_CRASH_ID_MAX]; /* "" before the first report is written */
    bool torch_file;          /* whether torchrun's error file was written by us */
};

/* crash_report.c: fills t->facts, before all else: the process goes when its time is up. */
void pb_crash_facts(struct pb_crash_taken *t, struct pb_arena *a);
/* The first line of a report. */
void pb_crash_head(const struct pb_crash_taken *t, struct pb_arena *a, struct pb_buf *out);
/* crash_torch.c: the error file of torchrun, where it wants one and nobody has written it. */
void pb_crash_torch(struct pb_crash_taken *t);

#endif
