/*
 * calls.h - calls of modules: what runs in the call slot of every module.
 *
 * Owns: the calls under way, on the stacks of their threads, and those that have ended and have no
 * row yet.
 * Threads: GIL held. Whatever runs Python may lose it, and find the collector off afterwards.
 * Fails: never for the caller: the module is called whatever happens here.
 * Not here: which modules there are (modules.h), rows (trace.h), the slots (slots.h).
 */
#ifndef PB_AGENT_TORCH_CALLS_H
#define PB_AGENT_TORCH_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/torch/slots.h"

struct pb_torch;
struct pb_torch_module;
struct pb_torch_thread;

enum { PB_TORCH_ENDED = 128 };

/* One call under way, on the stack of the thread that makes it. */
struct pb_torch_call {
    struct pb_torch_call *outer; /* call that it is inside of, or NULL */
    struct pb_torch_module *module;
    uint64_t began_ns;      /* 0 where the call is timed in ticks */
    uint32_t depth;         /* thread's depth before the call */
    uint32_t changes;       /* modules.changes before the call */
    int span;               /* GPU span (native/cuda.h), or -1 */
    uint32_t device;        /* device whose bytes are counted */
    int64_t bytes;          /* thread's bytes before the call */
    int64_t inner_bytes;    /* bytes that calls inside have left allocated */
    uint64_t number;        /* number of torch's next recorded operation; UINT64_MAX: not asked */
    uint64_t inner_ns, inner_ticks; /* time of calls inside, by the clock that timed each */
};

/*
 * A call that has ended and has no row yet. Times are ns or ticks (ended_in_ticks). The module's
 * entry is not given to another module before the row is written.
 */
struct pb_torch_ended {
    uint64_t began, ended;
    uint64_t inside;                /* time of calls inside */
    struct pb_torch_module *module;
    struct pb_torch_thread *thread; /* still in the same outermost call */
    int64_t bytes;                  /* bytes in tensors at the end; or PB_TORCH_UNKNOWN */
    int64_t delta;                  /* change of the thread's bytes; or PB_TORCH_UNKNOWN */
    float own_mb;                   /* change without modules inside */
};

struct pb_torch_calls {
    pb_torch_ternary *original; /* nn.Module's own call slot */
    uint32_t count;             /* recorded calls; every 64th has its own cost measured */
    uint32_t nended;            /* ended calls without a row, in t->ended_calls */
    bool ended_in_ticks;
};

/* Makes the state known to pb_torch_on_call, which gets no argument for it. */
void pb_torch_calls_enter(struct pb_torch *t);
/* The call slot of every module class. */
struct _object *pb_torch_on_call(struct _object *module, struct _object *args,
                                 struct _object *kwargs);
/* Writes the rows of ended calls: before any other row, and before the step changes. */
void pb_torch_calls_flush(struct pb_torch *t);

#endif
