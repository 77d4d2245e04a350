/*
 * recording.h - what was sampled: threads, and for each of them stack after stack with its time.
 *
 * Owns: its tables, and the stacks.
 * Threads: one.
 * Fails: never.
 * Not here: where samples come from (sampler.h), files (formats.h).
 *
 * Samples of one thread that follow each other and say the same are one entry, so that a thread
 * which waits for an hour costs as much as one that waits for a second.
 */
#ifndef PB_RECORDING_RECORDING_H
#define PB_RECORDING_RECORDING_H

#include <regex.h>
#include <sys/types.h>

#include "recording/stacks.h"

struct pb_rec_thread {
    pid_t pid, tid;
    const char *name;
    bool is_main;
    bool ran;      /* it had a processor during the recording */
    size_t latest; /* its last entry, shifted by one; 0: none yet */
};

struct pb_rec_sample {
    uint64_t at_ns;     /* begin, since the start of the recording */
    uint64_t weight_ns; /* wall time that it stands for */
    uint32_t thread, node;
    uint32_t count; /* samples in this entry; 0 stands for one */
    uint8_t state;  /* enum pb_state */
    bool on_cpu, holds_gil, waits_gil, torn;
};

/* Entries after which a recording takes no more: 400 MB. */
enum { PB_RECORDING_MAX = 8 << 20 };

struct pb_recording {
    pid_t pid; /* the first process */
    size_t processes;
    const char *command, *python; /* command and version of the first process; NULL: not known */
    double rate;         /* asked for, Hz; 0: it comes out of history or a file */
    int64_t started_ns;  /* since 1970 */
    uint64_t length_ns;
    uint64_t ticks, missed, samples, torn, reads, stops;
    uint64_t partial;  /* stacks that were read without C frames, or without the outer ones */
    uint64_t left_out; /* looks at a process, as its threads would have been held for too long */
    double pause_us; /* all stops together */
    uint64_t cpu_ns; /* what sampling cost this process */
    bool has_idle;   /* a filter found nothing else, so what rests is in it */
    bool is_memory;  /* weights are thousandths of a byte that is in use, not time */
    bool collapsed;  /* made of collapsed stacks: no threads, and short names of files */
    struct pb_stacks stacks;
    struct pb_rec_thread *threads;
    size_t nthreads, threads_cap;
    struct pb_rec_sample *entries;
    size_t nentries, entries_cap;
    bool full; /* a sample found no room */
    /* What it is compared with: entries like those above, of the same threads and stacks. */
    struct pb_rec_sample *before;
    size_t nbefore, before_cap;
    const char *before_title; /* NULL: it is compared with nothing */
    const char **source; /* by frame: its line of the program; NULL where nobody has read them */
    size_t nsource;
    double before_scale; /* makes both stand for the same length of time */
};

void pb_recording_init(struct pb_recording *r);
void pb_recording_finish(struct pb_recording *r);
/* Forgets the samples and what was counted; threads and stacks stay. */
void pb_recording_clear(struct pb_recording *r);

uint32_t pb_recording_thread(struct pb_recording *r, pid_t pid, pid_t tid, const char *name);
/* Adds a sample, unless the recording is full; the same as the last of its thread prolongs that. */
void pb_recording_add(struct pb_recording *r, const struct pb_rec_sample *sample);

struct pb_rec_filter {
    const regex_t *threads; /* by name or number; NULL: all */
    bool gil, cpu;          /* only the holder of the GIL; only what runs */
    bool idle;              /* threads that rest are counted, too */
};

/*
 * Leaves out what is not asked for. Unless idle is set, threads at rest (sleeping, waiting for
 * connections, never run during the recording) are left out, but never the main one, and not if
 * nothing else is there.
 */
void pb_recording_filter(struct pb_recording *r, const struct pb_rec_filter *f);

/* Time by node: own, and with its callees. Both have room for stacks.nnodes, zeroed. */
void pb_recording_sums(const struct pb_recording *r, uint64_t *self, uint64_t *total);
/* The same of what it is compared with, scaled to the length of the recording. */
void pb_recording_sums_before(const struct pb_recording *r, uint64_t *self, uint64_t *total);

/* Entries of one thread, stack and state together; in the order of their numbers. */
struct pb_rec_leaf {
    uint32_t node, thread;
    uint8_t state;
    bool on_cpu, holds_gil, waits_gil;
    uint64_t weight_ns, count;
};
size_t pb_recording_leaves(const struct pb_recording *r, struct pb_arena *a,
                           struct pb_rec_leaf **ret);

#endif
