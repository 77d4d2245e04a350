/*
 * gpu.h - the end of operations on a GPU.
 *
 * Owns: two CUDA events for each entry of an operation, made at first use and kept for ever.
 * Threads: any, but no two for one operation.
 * Fails: an end that cannot be seen stays unknown.
 * Not here: the driver's functions (native/driver.h).
 *
 * NCCL works on a stream, long after the call has returned. When torch has put an operation on its
 * stream it ends the event for it, with that stream as the current one: a CUDA event that is
 * recorded there then is behind the operation, and one recorded when the event began is where it
 * could begin. Where Python waits at once there is no event (mute.h): the stream of the program is
 * behind the operation when the wait returns, and the two are recorded there. Both are read later,
 * without waiting.
 *
 * Asking the driver may wait for a thread that waits in the driver. So only threads ask that are
 * about to use the GPU anyway: those that begin the next operation, and the main thread if it has
 * a context.
 */
#ifndef PB_AGENT_COMM_GPU_H
#define PB_AGENT_COMM_GPU_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/collectors/native/driver.h"

struct pb_comm;
struct pb_comm_op;

struct pb_comm_gpu {
    _Atomic int state;          /* 0: not searched for yet; 1: works; -1: does not */
    struct pb_driver driver;
    void *get_stream, *to_raw;  /* torch's functions for the stream of a thread */
    void *_Atomic context;      /* CUDA context that the events are of */
    _Atomic int waiting;        /* operations with both marks */
    _Atomic uint64_t polled_ns; /* last poll */
    _Atomic int coalescing;     /* groups that collect operations at the moment */
    _Atomic uint64_t busy_ns;   /* time with operations at work, not yet asked for */
    atomic_flag lock;           /* held by a poll; guards the next three */
    void *base;                 /* event that times on the GPU are counted from; renewed */
    uint64_t base_ns;           /* when it was recorded */
    double last_ms;             /* end of the last operation that was counted, from base on */
};

void pb_comm_gpu_begins(struct pb_comm *c, struct pb_comm_op *op);
void pb_comm_gpu_ends(struct pb_comm *c, struct pb_comm_op *op);
/* Writes the ends of what is done, if this thread works with the GPU. */
void pb_comm_gpu_poll(struct pb_comm *c);
void pb_comm_gpu_forget(struct pb_comm *c);
/* In a forked child, async-signal-safe. */
void pb_comm_gpu_forked(struct pb_comm *c);

#endif
