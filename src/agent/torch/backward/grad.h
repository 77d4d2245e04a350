/*
 * grad.h - backward of single modules.
 *
 * Owns: a record of the forward calls of one step and of the operations of one backward pass.
 * Threads: everything has the GIL, but for what torch calls at each operation of a backward pass.
 * Fails: a pass that cannot be split by module gives no rows, and the status line says why.
 * Not here: passes as a whole (backward.h), rows of python.torch_trace (trace.h).
 *
 * Torch numbers what it records for backward, in each thread of its own, and runs it in the order
 * of these numbers, the last one first. So a module's call has made the numbers from one to
 * another, and its backward is one piece of the pass. Torch's profiling events say which number
 * begins when; they are asked for during single passes only. Where the number stands in an event is
 * found by a test, on a graph of our own, once the program has made a backward pass itself: the
 * first one in a process starts threads, and that is not for us to do.
 */
#ifndef PB_AGENT_TORCH_BACKWARD_GRAD_H
#define PB_AGENT_TORCH_BACKWARD_GRAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/record.h"
#include "agent/torch/torch.h"

enum {
    PB_GRAD_NODES = 1 << 15,  /* operations of a pass */
    PB_GRAD_RANGES = 1 << 13, /* calls of a step */
    PB_GRAD_GAPS = 1 << 10,   /* calls within a pass */
    PB_GRAD_EVENTS = 1 << 12, /* operations of a pass that is timed on a GPU, and one more */
    PB_GRAD_TEST = 24,        /* operations of the test */
    PB_GRAD_BYTES = 384,      /* bytes of an event that are examined */
    PB_GRAD_DEPTH = 128,      /* calls within calls */
};

/* One operation of a pass; they are in the order in which they began. */
struct pb_grad_node {
    uint64_t began_ns;
    uint64_t number;       /* its number in forward; UINT64_MAX: none, it adds to a gradient */
    uint64_t thread;       /* thread that ran the forward, as torch counts them */
    pthread_t runs_on;
    _Atomic uint32_t pass; /* pass that it belongs to; written last */
    uint32_t event;        /* CUDA event at its beginning */
    bool timed;            /* whether `event` was recorded */
    int64_t bytes;         /* bytes in tensors when it began */
};

/* A call of a module: the numbers that torch has given out meanwhile. */
struct pb_grad_range {
    uint64_t from, to, thread;
    struct pb_torch_module *module;
    const struct _object *object; /* compared only: the module that the entry was of */
    uint32_t label;               /* dictionary: the outermost module around it */
    bool root;
};

/* Forward within a pass, as it comes with checkpoints: no part of backward. */
struct pb_grad_gap {
    uint64_t began_ns, ended_ns;
    pthread_t thread;
};

/* A call whose row comes after those of the calls inside. */
struct pb_grad_level {
    const struct pb_grad_range *range;
    uint64_t inside_ns; /* backward time of the calls inside */
};

/* c10::cuda::CUDAStream */
struct pb_grad_stream {
    uint64_t device; /* the lower 16 bits count */
    int64_t number;
};

/* The test that finds the numbers in torch's events. */
struct pb_grad_test {
    _Atomic bool running;
    pthread_t thread;
    unsigned nsamples;
    unsigned char samples[PB_GRAD_TEST + 8][PB_GRAD_BYTES];
};

/* Times on the GPU in a pass. */
struct pb_grad_gpu {
    bool timed;         /* this pass is timed */
    void *raw_stream;   /* stream that the events are recorded on */
    struct pb_grad_stream (*current)(signed char device);
    struct pb_grad_stream on;
    uint32_t nevents, last_event;
    uint32_t nwaiting;  /* rows that wait for their time */
    void *events[PB_GRAD_EVENTS];
};

struct pb_grad {
    struct pb_self *self;
    int state;           /* 0: to be tested; 1: works; -1: does not */
    bool reported;       /* the status line says what is waited for */
    struct pb_record record;
    uint64_t (*next_number)(void); /* number of this thread's next operation */
    uint64_t (*this_thread)(void); /* number of this thread, as torch counts them */
    size_t number_at, thread_at;   /* offsets in an event */
    double node_ns;      /* cost of one recorded operation */
    struct pb_grad_test test;

    uint32_t every;      /* one traced step in so many is split */
    double cost_ns;      /* cost of the passes of this step */
    uint32_t nranges;    /* calls of this step */
    uint32_t last_nodes; /* operations of the last pass that was split */

    /* The pass under way. */
    uint64_t callback;   /* number of ours in torch */
    bool listening;
    _Atomic bool open;   /* operations are recorded */
    _Atomic uint32_t pass, nnodes;
    uint32_t ngaps, nlevels;
    _Atomic uint64_t ended_ns;   /* end of the last operation */
    _Atomic int64_t ended_bytes; /* bytes in tensors then */
    uint64_t began_ns;
    uint64_t inside_ns;  /* time of modules whose call was in no other one */
    const char *spoilt;  /* reason why the pass cannot be split; or NULL */
    const char *reported_spoilt; /* reason that the status line has */
    struct pb_grad_level levels[PB_GRAD_DEPTH];

    struct pb_grad_gpu gpu;
    struct pb_grad_range ranges[PB_GRAD_RANGES];
    struct pb_grad_gap gaps[PB_GRAD_GAPS];
    struct pb_grad_node nodes[PB_GRAD_NODES];
};

/* The state, or NULL before the first start. */
struct pb_grad *pb_grad_state(struct pb_self *self);

/* grad_pass.c */

/* At the end of a step, after the sampling budget's choice: is the next one split? */
void pb_grad_choose(struct pb_torch *t, uint64_t number, uint64_t took);
/* At the end of a module's call in a step that is split. */
void pb_grad_call_ends(struct pb_torch *t, const struct pb_torch_call *c, uint64_t now,
                       bool failed);
/* Before a pass. True: it is split, and pb_grad_pass_ends is to be called. */
bool pb_grad_pass_begins(struct pb_torch *t);
/* Time of all modules in it but the one that it is named after; UINT64_MAX: not split. */
uint64_t pb_grad_pass_ends(struct pb_torch *t, bool good);
/* Another pass begins meanwhile: inside of this one, or in another thread. */
void pb_grad_pass_disturbed(struct pb_torch *t);
/* Has torch call us at each operation of a backward pass. */
void pb_grad_listen(struct pb_grad *g, bool on);

/* grad_gpu.c */
void pb_grad_gpu_begins(struct pb_torch *t, struct pb_grad *g);
/* Any thread, without the GIL: an operation begins. */
void pb_grad_gpu_record(struct pb_grad *g, struct pb_grad_node *node);
void pb_grad_gpu_ends(struct pb_torch *t, struct pb_grad *g);

#endif
