/*
 * tasks.h - the threads of one process, round by round.
 *
 * Owns: the list of threads and their counters.
 * Threads: one.
 * Fails: never; a thread that ended is left out.
 * Not here: names, states and where a thread waits (system_thread.c reads them when they matter).
 *
 * A thread that was not given a CPU since the last round costs one small read, since nothing else
 * about it can have changed.
 */
#ifndef PB_NODE_SAMPLE_TASKS_H
#define PB_NODE_SAMPLE_TASKS_H

#include "node/sample/sampler.h"

struct pb_tasks {
    struct pb_sampled_thread *v; /* by tid */
    size_t n;
    bool stale; /* the list does not fit any more */
    bool timed; /* schedstat is there: nanoseconds, and waiting for a CPU */
};

/* threads: how many there are now, as /proc/PID/stat says. */
void pb_tasks_read(struct pb_tasks *t, pid_t pid, int64_t threads);
void pb_tasks_finish(struct pb_tasks *t);

#endif
