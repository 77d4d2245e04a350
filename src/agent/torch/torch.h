/*
 * torch.h - the torch collector: its state, made of one part for each subject.
 *
 * Owns: the state (one per process); each part belongs to its own files.
 * Threads: GIL held for everything but what is _Atomic; a thread's entry belongs to that thread.
 * Fails: a part that cannot work with this torch says why in the status line; the others go on.
 * Not here: the framework (collect.h), communication (comm/), backward by module (grad.h).
 *
 * Nothing is recorded by Python code. Module calls and batches of a data loader pass through type
 * slots that are put in place of the original ones and call these; backward passes through an
 * object in place of autograd's engine; optimizer steps through C functions of torch whose entry is
 * replaced. Code that was put in place may be running in some thread when the collector is turned
 * off, so the originals are kept for ever and the functions here stay valid. Whatever runs Python
 * may lose the GIL meanwhile, and find the collector off when it comes back.
 */
#ifndef PB_AGENT_TORCH_TORCH_H
#define PB_AGENT_TORCH_TORCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/cuda.h"
#include "agent/collectors/state.h"
#include "agent/torch/backward/backward.h"
#include "agent/torch/budget.h"
#include "agent/torch/builtins.h"
#include "agent/torch/calls.h"
#include "agent/torch/clock.h"
#include "agent/torch/profiler/events.h"
#include "agent/torch/steps/expressions.h"
#include "agent/torch/frames.h"
#include "agent/torch/steps/loaders.h"
#include "agent/torch/steps/logs.h"
#include "agent/torch/steps/loss.h"
#include "agent/torch/steps/manual.h"
#include "agent/torch/memory/memory.h"
#include "agent/torch/modules.h"
#include "agent/torch/backward/norm.h"
#include "agent/torch/memory/oom.h"
#include "agent/torch/steps/optimizers.h"
#include "agent/torch/slots.h"
#include "agent/torch/steps/steps.h"
#include "agent/torch/thread.h"
#include "agent/torch/trace.h"
#include "agent/torch/values.h"
#include "agent/py/object.h"
#include "agent/core/self.h"
#include "base/clock.h"
#include "store/writer.h"

struct pb_torch {
    /*
     * What every call of a module needs stands first and close together: between two calls torch
     * has used all of the processor's caches for itself.
     */
    _Alignas(128) struct pb_self *self;
    _Atomic bool on;      /* hooks are in and do their work */
    _Atomic bool tracing; /* the step under way is traced by module */
    bool timing;          /* whether the step under way is timed on the GPU */
    bool splitting;       /* whether its backward passes are split by module (grad.h) */
    struct pb_torch_calls calls;
    struct pb_torch_threads threads;
    struct pb_torch_modules modules;
    struct pb_torch_clock clock;
    _Alignas(64) struct pb_torch_thread thread_list[PB_TORCH_THREADS];
    _Alignas(64) struct pb_torch_ended ended_calls[PB_TORCH_ENDED];

    struct pb_torch_steps steps;
    struct pb_torch_optimizers optimizers;
    struct pb_torch_manual manual;
    struct pb_torch_backward backward;
    struct pb_torch_losses loss;
    struct pb_torch_norm norm;
    struct pb_torch_values values;
    struct pb_torch_expressions expressions;
    struct pb_torch_events events;
    struct pb_torch_budget budget;
    struct pb_torch_memory memory;
    struct pb_torch_oom oom;
    struct pb_torch_slots slots;
    struct pb_torch_builtins builtins;
    char problem[96]; /* what does not work with this torch */

    /* What is large stands last. */
    struct pb_torch_loaders loaders;
    struct pb_cuda cuda;
    struct pb_torch_logs logs;
    struct pb_torch_trace trace;
    struct pb_torch_module_table module_table;
};

/* The state, or NULL before the first start. */
struct pb_torch *pb_torch_state(struct pb_self *self);

/* What is sampled, and what does not work, for the status line. */
void pb_torch_report_state(struct pb_torch *t);

/* The calling thread's entry; NULL: there are too many. */
static inline struct pb_torch_thread *pb_torch_thread(struct pb_torch *t)
{
    pthread_t caller = atomic_load_explicit(&t->threads.caller, memory_order_relaxed);

    /* Mostly one thread makes all calls. */
    return pthread_equal(caller, pthread_self()) ? t->threads.called : pb_torch_thread_find(t);
}

/* The collector itself has worked since then. */
static inline void pb_torch_add_own_time(struct pb_torch *t, uint64_t began_ns)
{
    t->steps.sums.own_ns += pb_clock_ns() - began_ns;
}

#endif
