/*
 * progress.h - the file `progress`: where a training process is at this moment.
 *
 * Owns: nothing; the layout only.
 * Threads: each thread of the process writes its own entry; any number of readers, in any process.
 * Fails: never. Whoever reads it checks everything: another process wrote it.
 * Not here: writing (agent/collectors/progress.h), reading (reader_progress.h).
 *
 *     head (128 bytes) | 62 threads, a cache line each | names
 *
 * Every field is a word that is stored by itself, so that storing costs a nanosecond and needs no
 * lock. Fields that were read together may therefore be some nanoseconds apart: a module may
 * already be that of the next call. The file outlives the process and then says where it ended.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds, 0: never. Thread ids are those of the process's own
 * pid namespace. A name is the offset of its entry from names_at divided by 8, plus 1, as in the
 * dictionary of a ring (format.h); 0: none. An entry never changes.
 */
#ifndef PB_STORE_PROGRESS_H
#define PB_STORE_PROGRESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PB_PROGRESS_MAGIC "PBSTEPS\n" /* 8 bytes, no terminator */
#define PB_PROGRESS_MAJOR 1
#define PB_PROGRESS_MINOR 0

enum {
    PB_PROGRESS_THREADS = 62,
    PB_PROGRESS_NAMES_AT = 4096,
    PB_PROGRESS_SIZE = 128 << 10, /* bytes of the whole file */
};

/* What a thread does: X(id, number, name). */
#define PB_PROGRESS_PHASES(X)                                                                      \
    X(OTHER, 0, "other")                                                                           \
    X(DATA, 1, "data")                                                                             \
    X(FORWARD, 2, "forward")                                                                       \
    X(BACKWARD, 3, "backward")                                                                     \
    X(OPTIMIZER, 4, "optimizer")                                                                   \
    X(EVAL, 5, "eval")

enum pb_progress_phase {
#define X(id, number, name) PB_PHASE_##id = number,
    PB_PROGRESS_PHASES(X)
#undef X
    PB_PHASE_COUNT
};

struct pb_progress_head {
    char magic[8];
    uint16_t major, minor;
    uint32_t file_size;
    uint32_t thread_size; /* bytes of one struct pb_progress_thread as written */
    uint32_t nthreads;    /* entries */
    uint32_t names_at, names_size;
    _Atomic uint32_t names_used;     /* bytes given out */
    _Atomic int32_t step_tid;        /* thread that makes the steps; 0: not known yet */
    _Atomic int64_t step;            /* step under way; INT64_MIN: none */
    _Atomic int64_t epoch;           /* epoch under way; INT64_MIN: none */
    _Atomic uint64_t steps_ended;    /* steps that ended since the agent came */
    _Atomic uint64_t step_ended_ns;  /* when the last of them did */
    _Atomic uint64_t step_took_ns;   /* how long it took; 0: not known */
    uint64_t reserved[6];
};

struct pb_progress_thread {
    _Atomic int32_t tid;           /* 0: the entry is free */
    _Atomic uint32_t phase;        /* enum pb_progress_phase */
    _Atomic uint64_t phase_ns;     /* when the phase began */
    _Atomic int64_t step;          /* where each call is a step of its own; else INT64_MIN */
    _Atomic uint32_t module;       /* name of the innermost module call that is known, or 0 */
    _Atomic uint32_t collective;   /* name of the operation between ranks that it is in, or 0 */
    _Atomic uint32_t group;        /* name of that operation's process group, or 0 */
    uint32_t reserved;
    _Atomic int64_t collective_seq; /* its number in its group; INT64_MIN: not known */
    _Atomic uint64_t collective_ns; /* when it began */
    uint64_t reserved_2;
};

#define PB_PROGRESS_AT(part, field, offset)                                                        \
    _Static_assert(offsetof(struct pb_progress_##part, field) == (offset), "progress layout")

PB_PROGRESS_AT(head, magic, 0);
PB_PROGRESS_AT(head, major, 8);
PB_PROGRESS_AT(head, minor, 10);
PB_PROGRESS_AT(head, file_size, 12);
PB_PROGRESS_AT(head, thread_size, 16);
PB_PROGRESS_AT(head, nthreads, 20);
PB_PROGRESS_AT(head, names_at, 24);
PB_PROGRESS_AT(head, names_size, 28);
PB_PROGRESS_AT(head, names_used, 32);
PB_PROGRESS_AT(head, step_tid, 36);
PB_PROGRESS_AT(head, step, 40);
PB_PROGRESS_AT(head, epoch, 48);
PB_PROGRESS_AT(head, steps_ended, 56);
PB_PROGRESS_AT(head, step_ended_ns, 64);
PB_PROGRESS_AT(head, step_took_ns, 72);
PB_PROGRESS_AT(thread, tid, 0);
PB_PROGRESS_AT(thread, phase, 4);
PB_PROGRESS_AT(thread, phase_ns, 8);
PB_PROGRESS_AT(thread, step, 16);
PB_PROGRESS_AT(thread, module, 24);
PB_PROGRESS_AT(thread, collective, 28);
PB_PROGRESS_AT(thread, group, 32);
PB_PROGRESS_AT(thread, collective_seq, 40);
PB_PROGRESS_AT(thread, collective_ns, 48);
_Static_assert(sizeof(struct pb_progress_thread) == 64, "progress layout");
#undef PB_PROGRESS_AT

/* The first page of the file. */
struct pb_progress_page {
    struct pb_progress_head head;
    struct pb_progress_thread threads[PB_PROGRESS_THREADS];
};
_Static_assert(offsetof(struct pb_progress_page, threads) == 128, "progress layout");
_Static_assert(sizeof(struct pb_progress_page) == PB_PROGRESS_NAMES_AT, "progress layout");

#endif
