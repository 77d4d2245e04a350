/*
 * capture.h - a consistent copy of one thread's stack.
 *
 * Owns: nothing; copies go into the caller's arena.
 * Threads: one; the caller's thread becomes the tracer during a stop.
 * Fails: what could not be copied consistently is marked torn, never shown as
 * if it were exact.
 * Not here: names, lines, values, unwinding: all of that is done from the
 * copies, after the thread went on.
 *
 * How a copy is known to be exact:
 *   blocked   what sleeps in a system call does not move: the kernel's run count
 *             and the system call are the same before and after the reading;
 *   running   everything that was read, read again several times, is the same
 *             byte for byte (a thread inside one long C call);
 *   stopped   else the thread is held alone for the copying.
 */
#ifndef PB_STACK_CAPTURE_H
#define PB_STACK_CAPTURE_H

#include "host/text/arena.h"
#include "host/process/maps.h"
#include "host/process/mem.h"
#include "host/process/proc.h"
#include "stack/native/native.h"
#include "stack/python/frames.h"
#include "stack/stop/stop.h"

enum pb_pause {
    PB_PAUSE_ONE,   /* a running thread may be held alone */
    PB_PAUSE_NEVER, /* nothing is ever stopped */
    PB_PAUSE_ALL,   /* the caller holds the whole process already */
};

/* A thread that waits in its signal handler, and its registers at the signal. */
struct pb_capture_at {
    pid_t tid;
    struct pb_regs regs;
};

struct pb_capture;

struct pb_capture_opts {
    pid_t pid;
    struct pb_mem *mem;
    const struct pb_maps *maps;
    const struct pb_py_layout *py;
    enum pb_pause pause;
    bool native;
    bool locals;
    struct pb_tracer *tracer; /* tracer of the calling thread */
    const struct pb_capture_at *at; /* NULL: no such thread */
    size_t head, tail; /* frames whose local variables are copied */
    /* Called while a thread is held, once its copy is whole; a running one is held then. */
    void (*held)(void *ctx, struct pb_capture *c);
    void *held_ctx;
};

/* Thread states of one thread: one in each interpreter that it has called into. */
struct pb_tstates {
    const uint64_t *v;
    size_t n; /* 0: not a Python thread */
};

struct pb_capture {
    pid_t tid;
    struct pb_tstates tstates;
    struct pb_proc_wait wait;
    bool gone;
    bool torn;
    bool stopped;    /* the thread was held for this copy */
    double pause_us; /* for how long */
    struct pb_py_raw_stack python;
    bool has_regs; /* native part: registers and stack bytes were copied */
    struct pb_regs regs;
    struct pb_stack_copy stack;
    const char *native_note; /* why there is no native part */
};

/* What can be made ready before a thread is held, so that the holding is short. */
struct pb_capture_buffers {
    struct pb_tstates tstates;
    struct pb_py_copy python; /* a first look at the first of them: where things are */
    uint8_t *stack;           /* memory for the C stack, already touched */
    size_t stack_len;
};

void pb_capture_prepare(const struct pb_capture_opts *o, struct pb_tstates tstates,
                        struct pb_arena *a, struct pb_capture_buffers *ret);

void pb_capture_thread(const struct pb_capture_opts *o, pid_t tid, struct pb_tstates tstates,
                       struct pb_arena *a, struct pb_capture *ret);

/* Its Python frames once more, as they are now. False: memory made no sense, it may be torn. */
bool pb_capture_python(const struct pb_capture_opts *o, struct pb_tstates tstates,
                       struct pb_arena *a, struct pb_py_raw_stack *ret);

/* The same for a thread that the caller holds, with the buffers prepared for its thread states. */
void pb_capture_held(const struct pb_capture_opts *o, const struct pb_stop *stop,
                     struct pb_capture_buffers *buffers, struct pb_arena *a,
                     struct pb_capture *ret);

#endif
