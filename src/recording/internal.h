/*
 * internal.h - a process and its threads as the sampler knows them.
 *
 * Owns: see sampler.h.
 * Threads: one.
 * Fails: see each function.
 * Not here: ticks (sampler.c).
 */
#ifndef PB_RECORDING_INTERNAL_H
#define PB_RECORDING_INTERNAL_H

#include "recording/sampler.h"
#include "stack/build.h"

enum { PB_PROF_PARTS = 8 };

struct pb_prof_thread {
    pid_t tid;
    int schedstat; /* descriptor */
    struct pb_py_thread py[PB_PROF_PARTS]; /* one for each interpreter that it has called into */
    size_t npy;                            /* 0: it runs no Python */
    bool listed;            /* by the refresh that is going on */
    bool known;             /* `last` holds what was seen */
    bool blocked;           /* whether the thread slept when `last` was seen */
    uint64_t runs;          /* how often it had been given a CPU */
    uint64_t sampled_ns;    /* when it was looked at last */
    struct pb_rec_sample last; /* with its number in the recording */
};

struct pb_prof_process {
    pid_t pid;
    struct pb_tracer *tracer; /* tracer of the thread that samples */
    int task; /* /proc/PID/task */
    struct pb_mem mem;
    struct pb_maps maps;  /* what the native tables were made from */
    struct pb_maps fresh; /* maps of a later refresh */
    struct pb_arena arena;
    struct pb_py_location loc;
    struct pb_py_codes codes;
    struct pb_native *native;
    uint64_t code, stack; /* see pb_proc_stat: of the program that is open */
    uint64_t active; /* see pb_py_threads_name */
    uint32_t root;   /* root of its stacks in the tree */
    uint64_t refreshed_ns;
    unsigned refreshes;
    double held_us;      /* longest time that the present look held a thread */
    double held_mean_us; /* mean of that time over the last looks */
    int looks;           /* number of looks that held_mean_us covers */
    uint64_t rest_ns;    /* time before which no look begins */
    uint64_t nlink;      /* links of the task folder: changes with the number of threads */
    bool stale, ended, stopped;
    bool located; /* loc and codes are those of the program; false: it has called exec just now */
    struct pb_prof_thread *threads;
    size_t nthreads, cap;
};

int pb_prof_open(struct pb_prof_process **ret, pid_t pid, const char *hint, struct pb_err *err);
void pb_prof_close(struct pb_prof_process *p);
/*
 * Brings the list of threads up to date where it may have changed. since_ns: when a thread that is
 * new was not there yet.
 */
void pb_prof_refresh(struct pb_prof_process *p, const struct pb_sampler_opts *o, uint64_t now,
                     uint64_t since_ns, struct pb_recording *rec);

/* How often the thread was given a CPU; false: it is gone. */
bool pb_prof_runs(const struct pb_prof_thread *t, uint64_t *ret);
/* Reads the thread's stack into t->last, from flags to node; false: it is gone. */
bool pb_prof_read(struct pb_prof_process *p, struct pb_prof_thread *t,
                  const struct pb_sampler_opts *o, struct pb_recording *rec);

#endif
