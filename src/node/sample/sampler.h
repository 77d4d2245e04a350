/*
 * sampler.h - what the node itself measures, from outside, at a steady pace.
 *
 * Owns: a ring for each sampler in the node's own store, a thread for the machine and one for
 * devices, whose drivers may keep a question waiting for ever.
 * Threads: its own; pb_samplers_status from any.
 * Fails: a sampler that cannot work is off with a reason that probing.agents shows.
 * Not here: what agents collect inside targets (agent/collectors/).
 *
 * A sampler is one file, sample/<schema>_<table>.c, with its descriptor
 * `const struct pb_sampler pb_sampler_<schema>_<table>` first, and one line in samplers.def. Its
 * ring has the flag PB_RING_SHARED and its own columns pid and rank: NULL where a row is about
 * the machine. A table is about processes or about the machine, never about both.
 *
 * All of it together takes at most 1 % of a core: when a round cost more, the next one waits.
 */
#ifndef PB_NODE_SAMPLER_H
#define PB_NODE_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "schema/table.h"

struct pb_samplers;

/* The end of every list of columns. */
#define PB_SAMPLE_OF_PROCESS(X)                                                                    \
    X(pid, INT, "", "process id")                                                                  \
    X(rank, INT, "", "rank in its job, if it has one")
#define PB_SAMPLE_OF_MACHINE(X)                                                                    \
    X(pid, INT, "", "none: the row is about the machine")                                          \
    X(rank, INT, "", "none: the row is about the machine")

enum { PB_SAMPLED_MAX = 256 };

/* A process as /proc/PID/stat has it. */
struct pb_sample_stat {
    char state;
    uint64_t utime, stime; /* clock ticks */
    uint64_t minor_faults, major_faults;
    uint64_t start;
    int64_t threads;
    uint64_t vms, rss; /* bytes */
};

struct pb_sampled_thread {
    pid_t tid;
    bool fresh; /* first seen in this round: there are no differences */
    bool ran;   /* was given a CPU since the last round */
    uint64_t run_ns, wait_ns; /* on a CPU, and ready without one, since the last round */
    uint64_t voluntary, involuntary; /* switches since the last round */
    uint64_t at_run_ns, at_wait_ns, at_voluntary, at_involuntary; /* the counters themselves */
};

/* A Python process of this machine that rows are made about. */
struct pb_sampled {
    pid_t pid;
    uint64_t start;
    int64_t rank;    /* -1: unknown */
    unsigned slot;   /* below PB_SAMPLED_MAX, its own while it is looked at */
    uint64_t serial; /* differs when a slot has a new process */
    bool fresh;      /* first seen in this round */
    bool timed;      /* the kernel tells how long threads waited */
    struct pb_sample_stat now, before;
    const struct pb_sampled_thread *threads;
    size_t nthreads;
};

struct pb_sample_tick {
    int64_t now_ns;   /* since 1970 */
    uint64_t mono_ns;
    double seconds;   /* since this sampler's last tick; 0 the first time */
    const struct pb_sampled *processes; /* devices: pid, start and rank only */
    size_t nprocesses;
};

enum pb_sampler_lane { PB_LANE_MACHINE, PB_LANE_DEVICES, PB_LANES };

struct pb_sampler {
    struct pb_ring_spec ring;
    double every_s; /* times the setting sample.interval; whole numbers */
    enum pb_sampler_lane lane;
    /* state is the sampler's own, zeroed, state_size bytes. */
    size_t state_size;
    int (*start)(void *state, struct pb_err *err); /* or NULL; failing turns it off */
    void (*tick)(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);
    void (*stop)(void *state); /* or NULL */
};

/* In the order of samplers.def; ends with NULL. */
extern const struct pb_sampler *const pb_sampler_list[];

struct pb_samplers_opts {
    const char *host, *data_dir;         /* said in the node's own store */
    const _Atomic int64_t *interval_ms; /* the setting sample.interval; read at each round */
};
int pb_samplers_start(struct pb_samplers **ret, const struct pb_samplers_opts *o,
                      struct pb_err *err);
/* The folder of the node's own tables, for other rings in it; stays theirs. */
int pb_samplers_folder(const struct pb_samplers *s);
/* Closes the rings; the folder stays, for those who still read it. */
void pb_samplers_stop(struct pb_samplers *s);

/* One row a sampler: name, state ("on", "off"), reason, rows, ticks, cpu_ms. */
struct pb_sampler_status {
    const char *name, *state;
    char reason[160];
    uint64_t rows, ticks;
    double cpu_ms;
};
size_t pb_samplers_status(struct pb_samplers *s, struct pb_sampler_status *ret, size_t cap);

#endif
