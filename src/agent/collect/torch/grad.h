/*
 * grad.h - backward of single modules.
 *
 * Owns: what was noted of the forward calls of one step and of the operations of one backward pass.
 * Threads: everything has the GIL, but for what torch calls at each operation of a backward pass.
 * Fails: a pass that cannot be told apart by module gives no rows, and the status line says why.
 * Not here: passes as a whole (backward.c), rows of python.torch_trace (calls.c).
 *
 * Torch numbers what it records for backward, in each thread of its own, and runs it in the order
 * of these numbers, the last one first. So a module's call has made the numbers from one to
 * another, and its backward is one piece of the pass. Torch's profiling events say which number
 * begins when; they are asked for during single passes only. Where the number stands in an event is
 * found by a test, on a graph of our own, once the program has made a backward pass itself: the
 * first one in a process starts threads, and that is not for us to do.
 */
#ifndef PB_AGENT_COLLECT_TORCH_GRAD_H
#define PB_AGENT_COLLECT_TORCH_GRAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collect/comm/comm.h"
#include "agent/collect/torch/torch.h"

enum {
    PB_GRAD_NODES = 1 << 15, /* operations of a pass */
    PB_GRAD_RANGES = 1 << 13, /* calls of a step */
    PB_GRAD_HOLES = 1 << 10,  /* calls within a pass */
    PB_GRAD_EVENTS = 1 << 12, /* operations of a pass that is timed on a GPU, and one more */
    PB_GRAD_TEST = 24,        /* operations of the test */
    PB_GRAD_BYTES = 384,      /* of an event that are looked at */
    PB_GRAD_DEPTH = 128,      /* calls within calls */
};

/* One operation of a pass, in the order in which they began. */
struct pb_grad_node {
    uint64_t began_ns;
    uint64_t number;  /* UINT64_MAX: none, it adds to a gradient */
    uint64_t thread;  /* that ran the forward, as torch counts them */
    pthread_t runs_on;
    _Atomic uint32_t pass; /* that it belongs to; written last */
    uint32_t event;
    bool timed;
    int64_t bytes; /* in tensors when it began */
};

/* A call of a module: the numbers that torch has given meanwhile. */
struct pb_grad_range {
    uint64_t from, to, thread;
    struct pb_torch_module *module;
    const struct _object *object; /* compared, never used */
    uint32_t label; /* of the outermost call that it was in */
    bool root;
};

/* Forward within a pass, as it comes with checkpoints: no part of backward. */
struct pb_grad_hole {
    uint64_t began_ns, ended_ns;
    pthread_t thread;
};

/* A call whose row comes after those of the calls inside. */
struct pb_grad_level {
    const struct pb_grad_range *range;
    uint64_t inside_ns;
};

/* What is known of a stream of the GPU; c10::cuda::CUDAStream. */
struct pb_grad_stream {
    uint64_t device; /* the lower 16 bits of it */
    int64_t number;
};

struct pb_grad {
    struct pb_self *self;
    bool looked_for, said;
    int state; /* 0: to be tested; 1: works; -1: does not */
    uint64_t (*add)(struct pb_comm_callback);
    void (*remove)(uint64_t);
    uint64_t (*next_number)(void); /* of this thread */
    uint64_t (*this_thread)(void);
    struct pb_grad_stream (*stream)(signed char device);
    size_t number_at, thread_at; /* in an event */
    double node_ns;              /* what a noted operation costs */

    /* The test. */
    _Atomic bool testing;
    pthread_t tester;
    unsigned nsamples;
    unsigned char samples[PB_GRAD_TEST + 8][PB_GRAD_BYTES];

    /* This step. */
    uint32_t nranges, nholes;
    uint32_t every;      /* of the traced steps one in so many is noted */
    uint32_t last_nodes; /* operations of the last pass that was noted */
    double cost_ns;      /* of its passes */

    /* This pass. */
    uint64_t callback; /* number of ours in torch */
    bool in;
    _Atomic bool open;
    _Atomic uint32_t pass, nnodes;
    _Atomic uint64_t ended_ns; /* of the last operation */
    _Atomic int64_t ended_bytes; /* in tensors then */
    uint64_t began_ns;
    const char *spoilt, *spoilt_said;
    uint32_t nlevels;
    uint64_t inside_ns; /* of modules whose call was in no other one */
    struct pb_grad_level levels[PB_GRAD_DEPTH];

    /* Time on the GPU. */
    bool timed;
    void *raw_stream;
    struct pb_grad_stream on;
    uint32_t nevents, last_event;
    uint32_t nlate; /* rows that wait for it */
    void *events[PB_GRAD_EVENTS];

    struct pb_grad_range ranges[PB_GRAD_RANGES];
    struct pb_grad_hole holes[PB_GRAD_HOLES];
    struct pb_grad_node nodes[PB_GRAD_NODES];
};

/* The state, or NULL before the first start. */
struct pb_grad *pb_grad_state(struct pb_self *self);

/* grad_pass.c */

/* Which step is noted: after the choice of what else is done in it. */
void pb_grad_choose(struct pb_torch *t, uint64_t number, uint64_t took);
/* At the end of a module's call in a step that is noted. Without the GIL's loss. */
void pb_grad_call_ends(struct pb_torch *t, const struct pb_torch_call *c, uint64_t now,
                       bool failed);
/* Around one pass. True: it is noted, and ends is to be called. */
bool pb_grad_pass_begins(struct pb_torch *t);
/* Time of all modules in it but the one that it is named after; UINT64_MAX: not told apart. */
uint64_t pb_grad_pass_ends(struct pb_torch *t, bool good);
/* Another one begins meanwhile: inside of it, or in another thread. */
void pb_grad_pass_disturbed(struct pb_torch *t);
/* Has torch call us at each operation of a backward pass. */
void pb_grad_listen(struct pb_grad *g, bool on);

/* grad_gpu.c: GIL but for note. */
void pb_grad_gpu_begins(struct pb_torch *t, struct pb_grad *g);
void pb_grad_gpu_note(struct pb_grad *g, struct pb_grad_node *node);
void pb_grad_gpu_ends(struct pb_torch *t, struct pb_grad *g);

#endif
