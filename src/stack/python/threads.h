/*
 * threads.h - the interpreter's own list of threads.
 *
 * Owns: nothing; the list goes into the caller's arena.
 * Threads: one.
 * Fails: a list that changes while it is read is read again; what cannot be
 * told (a name, a native id) is left empty.
 * Not here: frames.
 */
#ifndef PB_STACK_PYTHON_THREADS_H
#define PB_STACK_PYTHON_THREADS_H

#include "host/text/arena.h"
#include "host/process/mem.h"
#include "host/process/proc.h"
#include "stack/python/locate.h"
#include "stack/values/value.h"

struct pb_py_thread {
    uint64_t tstate, interp;
    uint64_t ident; /* pthread_t: threading.get_ident() */
    pid_t tid;      /* tid in this machine's numbers; 0 when it cannot be told */
    const char *name; /* Python's name for it, NULL when unknown */
    int64_t interp_id; /* number of its interpreter, 0 the main one */
    bool holds_gil;
    bool collecting;   /* runs the garbage collector; never true to 3.6 */
    uint64_t gc_frame; /* frame that the running collection began in, 3.15 and later; else 0 */
    uint64_t gil; /* where threads that want its interpreter's GIL wait; 0 when unknown */
    uint64_t gil_size; /* bytes from there on */
};

struct pb_py_threads {
    struct pb_py_thread *v; /* oldest first */
    size_t n;
    bool complete;
    bool shutting_down; /* the runtime is past its exit handlers */
};

/* tids: the target's threads as /proc lists them, ascending. */
void pb_py_threads_read(const struct pb_py_location *loc, struct pb_mem *mem, pid_t pid,
                        const pid_t *tids, size_t ntids, struct pb_arena *a,
                        struct pb_py_threads *ret);

/*
 * Names from threading._active, for the threads that have none yet. *active is where that dict
 * was found the last time, 0 at first; it is looked for again when a name is missing.
 */
void pb_py_threads_name(struct pb_py_reader *r, struct pb_py_threads *threads, uint64_t *active);

/* Whether a thread that waits like this wants the GIL of its interpreter. */
bool pb_py_wants_gil(const struct pb_py_thread *t, const struct pb_proc_wait *wait);

/* The thread state that holds the GIL of an interpreter, 0 for none. */
uint64_t pb_py_gil_holder(const struct pb_py_location *loc, struct pb_mem *mem, uint64_t interp);

#endif
