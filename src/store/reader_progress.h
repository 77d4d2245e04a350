/*
 * reader_progress.h - reading the file `progress` of a process, living or dead.
 *
 * Owns: nothing; the caller holds the descriptor.
 * Threads: any.
 * Fails: with -1 and the reason. What is in the file is another process's: every number is checked,
 * and the file is read, never mapped, so that one that is cut off is a short read.
 * Not here: the layout (progress.h), finding the folder of a process (base/home.h).
 */
#ifndef PB_STORE_READER_PROGRESS_H
#define PB_STORE_READER_PROGRESS_H

#include <stdint.h>

#include "base/err.h"
#include "store/progress.h"

/* One thread; the fields mean what they do in progress.h. */
struct pb_progress_at {
    int32_t tid;
    enum pb_progress_phase phase;
    uint64_t phase_ns;
    int64_t step;
    uint32_t module, collective, group;
    int64_t collective_seq;
    uint64_t collective_ns;
};

struct pb_progress {
    int32_t step_tid;
    int64_t step, epoch;
    uint64_t steps_ended, step_ended_ns, step_took_ns;
    uint32_t nthreads; /* entries in use, the first ones of threads */
    struct pb_progress_at threads[PB_PROGRESS_THREADS];
};

/* A descriptor of the file in the folder of a process; -1 with errno. */
int pb_progress_open(int dirfd);
/* The whole first page: one system call. */
int pb_progress_read(int fd, struct pb_progress *ret, struct pb_err *err);
/* The text of a name, ended by a zero; "" where there is none. Its length. */
size_t pb_progress_text(int fd, uint32_t name, char *buf, size_t cap);
const char *pb_progress_phase_name(enum pb_progress_phase phase);

#endif
