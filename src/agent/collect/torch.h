/*
 * torch.h - what the parts of the torch collector share.
 *
 * Owns: the state of the collector (one per process) and of each thread that calls modules.
 * Threads: every call into these files has the GIL, but for what is _Atomic; a thread's own part
 * belongs to that thread.
 * Fails: a part that cannot work with this torch says why in its status line; the others go on.
 * Not here: the framework (collect.h), communication (torch_comm.c), what is in the state of CUDA
 * (torch_cuda.h).
 *
 * Nothing is recorded by Python code. Module calls and batches of a DataLoader pass through type
 * slots that are put in place of the original ones and call these; backward passes through an
 * object in place of autograd's engine; optimizer steps through torch's own global hooks. Code
 * that was put in place may be running in some thread when the collector is turned off, so the
 * originals are kept for ever and the functions here stay valid. Whatever runs Python may lose the
 * GIL meanwhile, and find the collector off when it comes back.
 */
#ifndef PB_AGENT_COLLECT_TORCH_H
#define PB_AGENT_COLLECT_TORCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/collect/torch_cuda.h"
#include "agent/self.h"
#include "base/err.h"
#include "store/tables/python_training_logs.h"
#include "store/writer.h"

enum {
    PB_TORCH_MODULES = 1 << 14, /* known at once; a power of two */
    PB_TORCH_THREADS = 64,      /* that call modules at the same time */
    PB_TORCH_PATH = 256,        /* bytes of a dotted name */
    PB_TORCH_LATE = 64,         /* steps whose loss is still on its way */
};

enum {
#define X(name, type, unit, doc) PB_TORCH_LOG_##name,
    PB_PYTHON_TRAINING_LOGS(X)
#undef X
        PB_TORCH_LOG_COLUMNS
};

/* Functions of torch that are replaced: X(id). What and where: torch_patch.c. */
#define PB_TORCH_PATCHES(X) X(SCALE) X(NORM) X(NORM_TOO) X(STEP_BEGINS) X(STEP_ENDS)

enum pb_torch_patch_id {
#define X(id) PB_TORCH_PATCH_##id,
    PB_TORCH_PATCHES(X)
#undef X
        PB_TORCH_PATCH_COUNT
};

typedef struct _object *pb_torch_ternary(struct _object *, struct _object *, struct _object *);
typedef struct _object *pb_torch_unary(struct _object *);

/* A module that has been seen. The weak reference clears the entry when the module goes. */
struct pb_torch_module {
    struct _object *object; /* NULL: free; PB_TORCH_GONE: was used */
    struct _object *weak;
    uint32_t name, type, operation; /* dictionary numbers in the ring */
    uint32_t walk; /* the last one that came by */
    bool root, has_children;
};

/* One module call in progress, on the stack of the thread that makes it. */
struct pb_torch_call {
    struct pb_torch_call *outer;
    struct pb_torch_module *module;
    uint64_t began_ns;
    uint32_t depth;   /* of the thread, before it */
    int span;         /* of the GPU, or -1 */
    double memory_mb; /* at the beginning, where it is measured */
};

/* A thread that calls modules. */
struct pb_torch_thread {
    _Atomic bool taken;
    struct pb_torch_call *top;
    uint32_t depth;
};

/* What happened since the last step ended. */
struct pb_torch_sums {
    uint64_t data_ns, forward_ns, backward_ns, optimizer_ns, comm_ns;
    uint64_t own_ns; /* what we spent ourselves */
    uint32_t backwards, rows;
    int64_t batch;
};

/* A row of python.torch_trace. */
struct pb_torch_row {
    uint32_t name, type, stage, operation;
    int64_t step, seq;
    uint64_t began_ns, ended_ns;
    double gpu_ms, allocated_mb, delta_mb;
};

/* A row of python.training_logs with values that are still on their way. */
struct pb_torch_late {
    union pb_cell row[PB_TORCH_LOG_COLUMNS];
    struct pb_cuda_value loss, norm;
};

/* A function of torch that is replaced: a method of a class, or a module's. */
struct pb_torch_patch {
    struct _object *owner, *was, *function, *ours;
    const char *name;
    bool in;
};

struct pb_torch {
    struct pb_self *self;
    /* Slots, found once: offset in a type and the function that was there. */
    ssize_t call_at, next_at;
    pb_torch_ternary *call_was;
    pb_torch_unary *next_was;
    struct _object *module_type, *iterator_type;
    _Atomic bool on;       /* hooks are in and do their work */
    _Atomic bool tracing;  /* this step is traced by module */
    bool weighing, timing; /* and memory is measured at each call, and time on the GPU */
    bool slots_in, engine_in;
    uint64_t slots_due_ns; /* not before, for new classes */

    pthread_key_t key;
    bool has_key;
    struct pb_torch_thread threads[PB_TORCH_THREADS];

    struct pb_ring *trace, *logs;
    size_t nmodules; /* places that are or were used */
    uint32_t walk;
    uint32_t strays, strays_due; /* modules in no tree, and when to look at the tree again */
    uint32_t stage_forward, stage_backward, stage_optimizer, operation_backward;

    /* Steps. */
    int64_t step, epoch, seq;
    uint64_t step_end_ns, attached_ns, took_ns; /* the last step's */
    int64_t wall_offset_ns; /* wall clock minus monotonic clock */
    struct pb_torch_sums sums;
    struct _object *main_optimizer; /* borrowed: compared, never used */
    struct _object *main_weak;
    uint64_t optimizer_began_ns, nested_ns;
    int optimizer_span;
    int others;           /* steps of other optimizers since the last one of this */
    uint32_t uncounted;   /* forwards that wait for an optimizer */
    struct _object *iterator;      /* borrowed: that gave the last batch */
    struct _object *step_iterator; /* borrowed: that fed the last step */
    bool exhausted;                /* it came to its end since */
    bool optimizer_seen;
    struct pb_torch_module *last_root;

    /* Values of this step. */
    struct pb_cuda_value loss, norm;
    struct _object *scaled; /* borrowed: what GradScaler made of a loss that was noted */
    struct pb_torch_late late[PB_TORCH_LATE];
    unsigned late_at, late_n;
    struct _object *dtypes[PB_CUDA_KINDS], *grad_enabled;

    /* The brake. */
    uint32_t period;      /* one step in so many is traced */
    uint32_t weigh_every; /* and of those one in so many is weighed */
    double cost_share;    /* smoothed share of the time that is ours */
    double call_cost_ns;  /* smoothed, of one recorded call */
    double own_cost_ns;   /* and of the rest in a step */
    double weigh_cost_ns; /* of one look at the memory */
    uint32_t calls;       /* recorded calls, for taking the time of some */
    double memory_mb, memory_peak_mb, cached_mb; /* last known */
    uint64_t memory_due_ns;
    int statm; /* a descriptor during steps that are weighed, or -1 */
    uint32_t period_said;
    char note[96]; /* what does not work with this torch */

    /* autograd's engine and ours in its place. */
    struct _object *variable, *engine, *run_backward;
    struct _object *proxy;
    struct _object *hooks[2], *handles[2];
    struct pb_torch_patch patches[PB_TORCH_PATCH_COUNT];

    struct pb_cuda cuda;
    struct pb_torch_row spans[PB_CUDA_SPANS]; /* rows whose time on the GPU is on its way */

    struct pb_torch_module modules[PB_TORCH_MODULES];
};

/* The state, or NULL before the first start. */
struct pb_torch *pb_torch_state(struct pb_self *self);

/* torch_slots.c: GIL. */
int pb_torch_slots_find(struct pb_torch *t, struct pb_err *err);
/* Puts our functions into every class that has the original ones; again for new classes. */
void pb_torch_slots_put(struct pb_torch *t);
void pb_torch_slots_take_back(struct pb_torch *t);

/* torch_calls.c: what the slots call. */
struct _object *pb_torch_on_call(struct _object *module, struct _object *args,
                                 struct _object *kwargs);
/* Begins what is not a module's call: a span of the GPU, or -1. */
int pb_torch_span_begins(struct pb_torch *t);
/* A row of python.torch_trace, now or when the span's time is known. */
void pb_torch_trace(struct pb_torch *t, const struct pb_torch_module *names, uint32_t stage,
                    uint32_t operation, uint64_t began_ns, uint64_t ended_ns, int span);
/* Writes the rows of a step whose spans are done; all of them, known or not, at the end. */
void pb_torch_spans_poll(struct pb_torch *t, bool all);
void pb_torch_threads_forked(struct pb_torch *t);

/* torch_modules.c: which modules there are, and their names. */
struct pb_torch_module *pb_torch_module_find(struct pb_torch *t, const struct _object *object);
/* GIL, no exception pending: the first call of a module that nobody has named. Or NULL. */
struct pb_torch_module *pb_torch_module_meet(struct pb_torch *t, struct _object *object,
                                             const struct pb_torch_call *outer);
/* Forgets all modules: they belong to a ring that is gone, or the collector leaves. */
void pb_torch_modules_forget(struct pb_torch *t);
/* Dictionary number of a class's name, or PB_NULL_NAME. ret: the text's first bytes, or NULL. */
uint32_t pb_torch_type_name(struct pb_torch *t, struct _object *object, char *ret, size_t *ret_len);
uint32_t pb_torch_name(struct pb_torch *t, const char *s, size_t len);

/* torch_step.c */
struct _object *pb_torch_on_next(struct _object *iterator);
int pb_torch_steps_enter(struct pb_torch *t, struct pb_err *err);
void pb_torch_steps_leave(struct pb_torch *t);
void pb_torch_step_begins(struct pb_torch *t);
void pb_torch_step_ends(struct pb_torch *t, struct _object *optimizer);

/* torch_backward.c: autograd's engine. */
int pb_torch_backward_enter(struct pb_torch *t, struct pb_err *err);
void pb_torch_backward_leave(struct pb_torch *t);

/* torch_patch.c: functions of torch that tell a value. False: this torch has no such function. */
bool pb_torch_patch_put(struct pb_torch *t, enum pb_torch_patch_id id);
void pb_torch_patches_enter(struct pb_torch *t);
void pb_torch_patches_leave(struct pb_torch *t);

/* torch_value.c: a number that torch has computed. */
void pb_torch_values_enter(struct pb_torch *t);
/* The value of a tensor with one element, or of a number; never waits for a GPU. */
void pb_torch_value_note(struct pb_torch *t, struct pb_cuda_value *v, struct _object *tensor);
struct _object *pb_torch_attribute(const struct pb_py *py, const char *module, const char *name);

/* torch_logs.c: rows of python.training_logs. */
void pb_torch_step_ended(struct pb_torch *t, struct _object *optimizer, uint64_t now);
/* Inference: a root has been called and no optimizer is about. */
void pb_torch_forward_counts(struct pb_torch *t, struct _object *root);
/* Writes rows whose values have come; all of them, known or not, at the end. */
void pb_torch_logs_poll(struct pb_torch *t, bool all);

/* torch_brake.c: which step is traced, weighed and timed next. */
void pb_torch_choose_next(struct pb_torch *t, uint64_t took);
void pb_torch_take_call(struct pb_torch *t, double ns); /* what a recorded call has cost */
void pb_torch_say(struct pb_torch *t);

/* torch_memory.c: MB. */
double pb_torch_memory_now(struct pb_torch *t);
void pb_torch_memory_look(struct pb_torch *t, uint64_t now);
void pb_torch_weighing_ends(struct pb_torch *t);

#endif
