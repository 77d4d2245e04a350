/*
 * snapshot.h - the stacks of a process, ready to be shown.
 *
 * Owns: a target object keeps what is learnt once (address space, interpreter,
 * code objects, symbols); a snapshot lives in the caller's arena.
 * Threads: one user per target object.
 * Fails: opening says why (gone, not permitted, not Python, unknown version);
 * a snapshot fails only when the process ended.
 * Not here: text (cli), SQL.
 */
#ifndef PB_STACK_SNAPSHOT_H
#define PB_STACK_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "stack/capture.h"
#include "stack/python/awaits.h"
#include "stack/python/locals.h"
#include "stack/python/locate.h"
#include "stack/python/locks.h"

struct pb_frame {
    uint64_t address; /* the interpreter's frame: the same while one call lasts; native: 0 */
    size_t depth; /* 0 = innermost; counts frames that are left out, too */
    bool native;
    const char *func; /* NULL: a native function without a symbol */
    const char *file; /* source; NULL when unknown */
    int lineno;       /* 0 when unknown */
    int end_lineno;   /* Python 3.11 and later: where the executing expression ends, else 0 */
    int col_offset, end_col_offset; /* its columns in bytes from 0; -1 when unknown */
    const char *source; /* the line itself, without its indentation; NULL when not asked for */
    int indentation;    /* bytes left out in front of it */
    int64_t interpreter; /* Python: number of the interpreter that it belongs to, 0 the main one */
    const char *module; /* native: the mapped file */
    uint64_t offset;    /* native: pc in that file */
    struct pb_local *locals;
    size_t nlocals;
};

/* PB_DUMPED: in a core file. */
enum pb_state { PB_RUNNING, PB_IDLE, PB_WAITING, PB_STOPPED, PB_DUMPED };

struct pb_thread {
    pid_t tid;
    pid_t ns_tid; /* inside its pid namespace; equals tid elsewhere */
    const char *name;
    bool python; /* known to the interpreter */
    bool is_main, holds_gil;
    int64_t interpreter; /* interpreter of the innermost Python frame */
    bool collecting; /* in garbage collection; never true to 3.6 */
    bool waits_gil; /* sleeps on the GIL's own condition variable */
    enum pb_state state;
    const char *wait; /* system call or kernel function, NULL when not waiting */
    bool torn;
    double pause_us; /* 0: it was not held */
    const char *note; /* what is missing and why, or NULL */
    struct pb_proc_wait blocked; /* the system call that it sleeps in */
    /* With the option `locks`: */
    struct pb_py_lock lock; /* lock that it waits for; object 0: none, or not found */
    pid_t on_tid;           /* thread of this process that it waits for: owner, joined; or 0 */
    uint64_t *held;         /* locks that its frames hold by `with` */
    size_t nheld;
    struct pb_py_await *awaits; /* suspended coroutines that its event loop waits for */
    size_t nawaits;
    struct pb_frame *frames; /* innermost first */
    size_t nframes;
    size_t total;    /* frames there are */
    size_t cut_at;   /* index in frames behind which `elided` frames are left out */
    size_t elided;
};

struct pb_snapshot {
    pid_t pid, ns_pid;
    const char *python; /* version */
    const char *how, *module; /* how the interpreter was found, and where */
    bool free_threaded;
    bool shutting_down; /* the interpreter ends: exit handlers have run, modules are torn down */
    struct pb_thread *threads;
    size_t nthreads;
    double pause_us;  /* whole process, with PB_PAUSE_ALL */
    double total_us;  /* time this snapshot took */
};

struct pb_snapshot_opts {
    bool all;
    pid_t tid; /* one thread, 0: the main thread unless all */
    bool locals, native;
    bool source; /* the executing line out of its file */
    bool locks;  /* Python locks that threads wait for and hold */
    enum pb_pause pause;
    size_t max_frames; /* shown per thread; the middle is left out. 0: no limit */
    struct pb_tracer *tracer; /* tracer of the calling thread; NULL: one for this call alone */
    const struct pb_capture_at *at; /* a thread that is in its signal handler, or NULL */
};

struct pb_target;

int pb_target_open(struct pb_target **ret, pid_t pid, const char *hint, struct pb_err *err);
void pb_target_close(struct pb_target *t);
int pb_target_snapshot(struct pb_target *t, const struct pb_snapshot_opts *o, struct pb_arena *a,
                       struct pb_snapshot *ret, struct pb_err *err);

/* What other readers of the same target need of it; all of it is the target's. */
struct pb_target_view {
    pid_t pid;
    struct pb_mem *mem;
    const struct pb_maps *maps; /* the maps that were read last */
    const struct pb_py_location *loc;
    struct pb_py_codes *codes;
    const pid_t *tids; /* its threads, ascending; in the caller's arena */
    size_t ntids;
    uint64_t bytes; /* memory in a core file; 0: a living process, whose kernel knows */
};

int pb_target_view(struct pb_target *t, struct pb_arena *a, struct pb_target_view *ret,
                   struct pb_err *err);

/* From what a thread is blocked in; a process that is stopped as a whole has no other state. */
enum pb_state pb_state_of(const struct pb_proc_wait *wait, bool process_stopped);
const char *pb_state_name(enum pb_state state);

#endif
