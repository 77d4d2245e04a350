/*
 * thread.h - the threads that call modules.
 *
 * Owns: one entry for each such thread, given back when the thread ends.
 * Threads: an entry belongs to its thread; `caller` and `called` remember the last one.
 * Fails: NULL when more threads than PB_TORCH_THREADS call modules at once: theirs are not seen.
 * Not here: the calls themselves (calls.h).
 */
#ifndef PB_AGENT_TORCH_THREAD_H
#define PB_AGENT_TORCH_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/progress.h"
#include "agent/torch/memory/memory.h"

struct pb_torch;
struct pb_torch_call;

enum { PB_TORCH_THREADS = 64 };

struct pb_torch_thread {
    _Atomic bool taken;
    struct pb_torch_call *top;  /* innermost call under way, or NULL */
    uint32_t depth;             /* calls under way */
    uint32_t fetching;          /* calls of a data loader under way */
    uint32_t root, phase;       /* dictionary: outermost module; train, eval or data */
    int64_t tid;
    struct pb_progress_thread *progress; /* what readers outside see of this thread */
    bool tracing;               /* the outermost call under way is traced */
    bool passed;                /* it has called backward since its last step of an optimizer */
    _Atomic bool serving;       /* the outermost call under way is a step of its own */
    int64_t step, seq;          /* numbers of that step and its next row; while serving */
    int64_t bytes[PB_TORCH_DEVICES]; /* bytes allocated less bytes freed by this thread */
};

struct pb_torch_threads {
    _Atomic pthread_t caller;       /* thread that called a module last; 0: none */
    struct pb_torch_thread *called; /* entry of that thread */
    pthread_key_t key;
    bool has_key;
};

/* Slow path of pb_torch_thread: a thread that did not make the last call. */
struct pb_torch_thread *pb_torch_thread_find(struct pb_torch *t);
/* In a forked child, async-signal-safe: only the calling thread is left. */
void pb_torch_threads_forked(struct pb_torch *t);

#endif
