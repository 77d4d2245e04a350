/*
 * torch.h - what the parts of the torch collector share.
 *
 * Owns: the state of the collector (one per process) and of each thread that calls modules.
 * Threads: every call into these files has the GIL, but for what is _Atomic; a thread's own part
 * belongs to that thread.
 * Fails: a part that cannot work with this torch says why in its status line; the others go on.
 * Not here: the framework (collect.h), communication (comm/comm.c), what is in the state of CUDA
 * (gpu.h), what a step is made of (step.h).
 *
 * Nothing is recorded by Python code. Module calls and batches of a DataLoader pass through type
 * slots that are put in place of the original ones and call these; backward passes through an
 * object in place of autograd's engine; optimizer steps through C functions of torch whose entry is
 * replaced. Code that was put in place may be running in some thread when the collector is turned
 * off, so the originals are kept for ever and the functions here stay valid. Whatever runs Python
 * may lose the GIL meanwhile, and find the collector off when it comes back.
 */
#ifndef PB_AGENT_COLLECT_TORCH_TORCH_H
#define PB_AGENT_COLLECT_TORCH_TORCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/collect/torch/alloc.h"
#include "agent/collect/torch/gpu.h"
#include "agent/collect/torch/step.h"
#include "agent/self.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/writer.h"

enum {
    PB_TORCH_MODULES = 1 << 13, /* known at once */
    PB_TORCH_PLACES = 2 * PB_TORCH_MODULES, /* a power of two */
    PB_TORCH_NOTES = 128,       /* calls that have no row yet */
    PB_TORCH_THREADS = 64,      /* that call modules at the same time */
    PB_TORCH_PATH = 256,        /* bytes of a dotted name */
    PB_TORCH_HELD = 1 << 12,    /* rows that wait for the GPU, or for one that does */
};

/* C functions of torch that are replaced: X(id). What and where: builtin.c. */
#define PB_TORCH_BUILTINS(X)                                                                      \
    X(ENTER) X(EXIT) X(ENTER_OLD) X(EXIT_OLD) X(GRAD_MODE) X(STACK) X(NORM) X(NORM_OLD)           \
    X(MAX_OLD) X(UNSCALE) X(CLAMP)

enum pb_torch_builtin_id {
#define X(id) PB_TORCH_BUILTIN_##id,
    PB_TORCH_BUILTINS(X)
#undef X
        PB_TORCH_BUILTIN_COUNT
};

typedef struct _object *pb_torch_ternary(struct _object *, struct _object *, struct _object *);
typedef struct _object *pb_torch_vectorcall(struct _object *, struct _object *const *, size_t,
                                            struct _object *);
typedef struct _object *pb_torch_unary(struct _object *);

/* A module that has been seen. The weak reference clears the entry when the module goes. */
struct pb_torch_module {
    struct _object *object; /* NULL: free; 1: was used */
    struct _object *weak;
    uint32_t name, type, operation; /* dictionary numbers in the ring */
    uint32_t backward;              /* the same for its backward; 0: not made yet */
    uint32_t label;                 /* as an outermost one; 0: not made yet */
    uint32_t number;                /* among those of its class that have a label */
    uint32_t walk; /* the last one that came by */
    bool root, has_children;
    bool has_parameters; /* of its own */
    float own_mb; /* what its last traced call left allocated, without those inside */
};

/* Where a module is found by its address. */
struct pb_torch_place {
    const struct _object *object; /* as in the module */
    uint32_t number;              /* of the module, from 1 on; 0: never used */
};

/* One module call in progress, on the stack of the thread that makes it. */
struct pb_torch_call {
    struct pb_torch_call *outer;
    struct pb_torch_module *module;
    uint64_t began_ns; /* 0 where ticks are counted */
    uint32_t depth;   /* of the thread, before it */
    uint32_t changes; /* of modules, before it */
    int span;         /* of the GPU, or -1 */
    uint32_t device;  /* whose bytes these are */
    int64_t bytes;    /* that this thread had allocated, less what it had freed, before it */
    int64_t inner;    /* bytes that calls inside have left */
    uint64_t number;  /* of the next operation that torch records, in a step that is noted */
    uint64_t inside_ns, inside_ticks; /* time of calls inside, by either clock */
};

/* A thread that calls modules. */
struct pb_torch_thread {
    _Atomic bool taken;
    struct pb_torch_call *top;
    uint32_t depth;
    uint32_t fetching; /* calls of a data loader that it is in */
    uint32_t root, phase; /* names of its outermost call and what that is for */
    int64_t tid;
    bool tracing; /* that call is traced */
    _Atomic bool serving; /* it is a step of its own, with these numbers; others may be too */
    int64_t step, seq;
    int64_t bytes[PB_ALLOC_KINDS]; /* allocated by it, less freed by it; written by it alone */
};

/*
 * A call that is over and has no row yet; its module is not given to another one before. Times are
 * ns or ticks, the same for all that wait.
 */
struct pb_torch_note {
    uint64_t began, ended;
    uint64_t inside; /* time of calls inside */
    struct pb_torch_module *module;
    struct pb_torch_thread *thread; /* still in the same outermost call */
    int64_t bytes, delta; /* in tensors at its end, and the change; or PB_ALLOC_UNKNOWN */
    float own_mb;         /* the change without modules inside */
};

/* A row of python.torch_trace. */
struct pb_torch_row {
    uint32_t name, type, stage, operation;
    int64_t step, seq;
    uint64_t began_ns, ended_ns;
    int64_t bytes, delta; /* in tensors at its end, and the change; or PB_ALLOC_UNKNOWN */
    double gpu_ms, self_ms;
    uint32_t root, phase;
    int64_t tid;
    struct pb_torch_thread *thread; /* that has the numbers; NULL: those of the step */
};

/* One that waits, for its own time on the GPU or for one before it. */
struct pb_torch_held {
    struct pb_torch_row row;
    void *from, *to; /* events; NULL: nothing to wait for */
    uint32_t *users;
};

/* A C function of torch that is replaced. */
struct pb_torch_builtin {
    struct _object *object; /* NULL: not looked for yet */
    void **place;           /* of the pointer; NULL: not to be replaced */
    void *was, *ours;
};

/* Where the optimizer was in the call that made the last step (frame.c). */
struct pb_torch_seat {
    struct _object *code;      /* of the function; NULL: not known */
    struct _object *optimizer; /* borrowed: compared, never used */
    int depth;
    uint32_t at; /* word of the frame */
};

struct pb_torch {
    /*
     * What every call of a module needs stands first and close together: between two calls torch
     * has used all of the processor's caches for itself.
     */
    _Alignas(128) struct pb_self *self;
    pb_torch_ternary *call_was;
    _Atomic pthread_t caller;       /* the thread that called last */
    struct pb_torch_thread *called; /* and what is known of it */
    pthread_key_t key;
    bool has_key;
    _Atomic bool on;       /* hooks are in and do their work */
    _Atomic bool tracing;  /* this step is traced by module */
    bool timing;           /* and time on the GPU is taken */
    bool ranging;          /* and what backward is of which module (grad.h) */
    bool ticking;          /* calls within calls are timed by the processor's counter */
    bool notes_tick;       /* and so are those that have no row yet */
    uint32_t calls;        /* recorded calls, for taking the time of some */
    uint32_t nnotes;
    uint32_t changes;      /* modules that went away or got other places */
    uint16_t last, coming; /* the module that was called, and the next one, most likely */
    _Alignas(64) struct pb_torch_thread threads[PB_TORCH_THREADS];
    _Alignas(64) struct pb_torch_note notes[PB_TORCH_NOTES];

    /* Slots, found once: offset in a type and the function that was there. */
    ssize_t call_at, next_at;
    pb_torch_unary *next_was;
    struct _object *module_type, *iterator_type;
    bool slots_in, engine_in, engine_runs;
    uint64_t slots_due_ns; /* not before, for new classes */
    uint64_t slots_look_ns, slots_pause_ns; /* then, whether there is one or not */

    struct pb_ring *trace, *logs;
    uint32_t nmodules; /* that are or were used */
    uint32_t free_module; /* of those one that is not, from 1 on; it has the next one */
    uint32_t walk;
    uint32_t strays, strays_due; /* modules in no tree, and when to look at the tree again */
    uint32_t stage_forward, stage_backward, stage_optimizer, operation_backward;
    uint32_t phase_train, phase_eval, phase_data;

    /* Steps. */
    int64_t step, epoch, seq;
    uint64_t step_end_ns, attached_ns, took_ns; /* the last step's */
    pthread_t step_thread; /* that makes the steps: parts of others are not theirs */
    bool has_step_thread;
    enum pb_torch_source step_source, epoch_source;
    struct pb_torch_number numbers[PB_TORCH_NUMBERS];
    bool loss_whole;         /* no backward of the first step came before us */
    uint64_t counted_ns;     /* time of all parts so far */
    uint64_t step_counted_ns; /* the same when the last step ended */
    uint64_t carry_comm_ns;  /* between ranks in this step, before its window began */
    uint32_t unfed;          /* steps since a loader was asked */
    struct pb_torch_hand hand;
    bool may_tick;            /* the processor's counter will do as a clock */
    uint64_t ticks, ticks_ns; /* both clocks at the last look */
    double ratio_seen;        /* between the last two looks */
    double ns_per_tick;       /* that is believed */
    int64_t wall_offset_ns; /* wall clock minus monotonic clock */
    uint64_t wall_due_ns;   /* not before, for looking at it again */
    struct pb_torch_sums sums;
    struct _object *main_weak; /* of the optimizer whose steps count */
    struct _object *named_type; /* an optimizer's, whose names are these */
    struct pb_torch_optimizer optimizers[PB_TORCH_OPTIMIZERS];
    uint32_t optimizer_name, optimizer_operation;
    uint64_t optimizer_began_ns;
    struct pb_torch_part optimizer_part;
    uint32_t step_backwards; /* that there had been when it began */
    int optimizer_span;
    int64_t optimizer_bytes; /* in tensors, before it */
    int others;           /* steps of other optimizers since the last one of this */
    uint32_t uncounted;   /* forwards that wait for an optimizer */
    uint32_t serving;     /* outermost calls under way that are steps of their own */
    struct _object *stepping;    /* borrowed, in a step: its optimizer */
    struct _object *step_record; /* borrowed: what torch's profiler has for it */
    struct _object *step_frame;  /* borrowed: of Python, that runs it */
    struct _object *step_error;  /* borrowed: that was being handled when it began */
    struct _object *optimizer_type;
    struct pb_torch_seat seat;
    struct _object *step_code; /* of the wrapper that torch's optimizers have */
    bool compiling;            /* torch.compile is in use */
    struct pb_torch_feed *feed, *main_feed; /* asked last, and that counts epochs */
    uint32_t main_pass;
    uint64_t asked;       /* loaders, times */
    bool fed, training;   /* a batch since the last forward; was that one for a step? */
    bool outside;         /* a root was called that is in no other one */
    bool optimizer_seen;
    struct _object *listener;  /* told of calls and steps (events.h), or NULL; GIL */
    bool profiling;            /* torch's profiler runs for `probing PID profile`; GIL */
    bool step_profiled;        /* it ran for a part of the current step */
    struct pb_torch_module *last_root;
    bool root_is_old; /* of a step before this */

    /* Values of this step. */
    struct pb_torch_loss loss;
    struct pb_cuda_value norm, unscale;
    struct _object *stacked; /* borrowed: the last result of torch.stack */
    struct _object *clip_globals, *fsdp_globals;
    unsigned late_at, late_n;
    struct pb_torch_other other;
    struct pb_torch_renamed renamed[2]; /* the latest model and optimizer */
    uint32_t sources[PB_TORCH_SOURCES]; /* names in python.training_logs */
    struct _object *dtypes[PB_CUDA_KINDS], *grad_enabled, *float_type;
    struct _object *numel, *data_ptr; /* of the class Tensor */
    struct _object *word_dtype, *word_is_cpu, *word_training, *word_groups, *word_lr,
        *word_accumulate;

    /* The brake. */
    uint32_t period;      /* one step in so many is traced */
    uint32_t time_every;  /* and of those one in so many is timed on the GPU */
    double cost_share;    /* smoothed share of the time that is ours in traced steps */
    double base_share;    /* and in others */
    double call_cost_ns;  /* smoothed, of one recorded call */
    double own_cost_ns;   /* and of the rest in a step that is traced */
    double base_cost_ns;  /* and in one that is not */
    double time_cost_ns;  /* of all that is done in a step that is timed */
    uint32_t rows;        /* of the last step that was traced */
    uint64_t spent_ns;    /* of the program's time, in all */
    uint64_t spent_due_ns; /* not before, for telling that */
    struct pb_alloc alloc;
    double memory_peak_mb; /* of CUDA's allocator, when last asked for */
    uint64_t memory_due_ns;
    const char *memory_said; /* why it is not known */
    uint32_t period_said;
    char note[96]; /* what does not work with this torch */
    char number_note[96]; /* which expression does not work, and why */
    bool number_note_new; /* it has not been said */

    /* autograd's engine and ours in its place. */
    struct _object *variable, *engine, *run_backward;
    struct _object *proxy;
    int passes; /* that are under way */
    pthread_t pass_thread;
    struct pb_torch_part passes_part;
    struct _object *hooks[2], *handles[2];
    struct pb_torch_builtin builtins[PB_TORCH_BUILTIN_COUNT];

    /* Running out of memory. */
    struct _object *memory_errors[3]; /* classes of exceptions; the last one tells by its text */
    bool oom_observed, oom_refused;   /* by torch's own means, for GPUs */
    pthread_t oom_thread;
    uint64_t oom_ns;

    unsigned held_at, held_n;
    uint32_t spans_held; /* of them */
    void *held_last;     /* the event that was put last */

    /* What is large stands behind what every step needs. */
    struct pb_cuda cuda;
    struct pb_torch_feed feeds[PB_TORCH_FEEDS];
    struct pb_torch_late late[PB_TORCH_LATE];
    struct pb_torch_held held[PB_TORCH_HELD];

    /*
     * Modules in the order in which they were met, and by address. Mostly they are called in the
     * same order, so that two short lists are looked at and nothing else: each one's address, and
     * which one came after it.
     */
    const struct _object *objects[PB_TORCH_MODULES];
    uint16_t after[PB_TORCH_MODULES];
    struct pb_torch_place places[PB_TORCH_PLACES];
    struct pb_torch_module modules[PB_TORCH_MODULES];
};

/* The state, or NULL before the first start. */
struct pb_torch *pb_torch_state(struct pb_self *self);

/* slots.c: GIL. */
int pb_torch_slots_find(struct pb_torch *t, struct pb_err *err);
/* Puts our functions into every class that has the original ones; again for new classes. */
void pb_torch_slots_put(struct pb_torch *t);
/* The same when it may be needed; about once a second. */
void pb_torch_slots_look(struct pb_torch *t, uint64_t now);
void pb_torch_slots_take_back(struct pb_torch *t);

/* calls.c: what the slots call. */
void pb_torch_calls_enter(struct pb_torch *t);
struct _object *pb_torch_on_call(struct _object *module, struct _object *args,
                                 struct _object *kwargs);
/* Begins what is not a module's call: a span of the GPU, or -1. */
int pb_torch_span_begins(struct pb_torch *t);
/* A row of python.torch_trace, now or when the span's time is known. UINT64_MAX: not known. */
void pb_torch_trace(struct pb_torch *t, const struct pb_torch_module *names, uint32_t stage,
                    uint32_t operation, uint64_t began_ns, uint64_t ended_ns, uint64_t inside_ns,
                    int64_t bytes_before, int span);
/* Gives the calls that are over their rows: before any other row, before the step changes. */
void pb_torch_notes_write(struct pb_torch *t);
/* What is known of this thread; NULL: there are too many. */
struct pb_torch_thread *pb_torch_thread(struct pb_torch *t);
void pb_torch_threads_forked(struct pb_torch *t);

/* ticks.c: about once a second. Not before two looks agree is t->ticking set. */
void pb_torch_ticks_enter(struct pb_torch *t);
void pb_torch_ticks_look(struct pb_torch *t);
bool pb_torch_ticks_agree(double ratio, double other);

/*
 * rows.c: rows are in the order of step and seq, which these give them; a module's follows
 * those of the modules that it called. A row that waits for its time on the GPU, which is that
 * between two events, holds back those after it. *users counts the rows of one owner that wait.
 */
void pb_torch_put(struct pb_torch *t, struct pb_torch_row *r);
void pb_torch_hold(struct pb_torch *t, struct pb_torch_row *r, void *from, void *to,
                   uint32_t *users);
/* Writes rows whose time has come; all of them, known or not, at the end. */
void pb_torch_rows_poll(struct pb_torch *t, bool all);

/* modules.c: which modules there are, and their names. */
/* The same as the next one, for one that is called now. */
struct pb_torch_module *pb_torch_module_called(struct pb_torch *t, const struct _object *object);
struct pb_torch_module *pb_torch_module_find(struct pb_torch *t, const struct _object *object);
/* GIL, no exception pending: the first call of a module that nobody has named. Or NULL. */
struct pb_torch_module *pb_torch_module_meet(struct pb_torch *t, struct _object *object,
                                             const struct pb_torch_call *outer);
/* Forgets all modules: they belong to a ring that is gone, or the collector leaves. */
void pb_torch_modules_forget(struct pb_torch *t);
/* The name of a module as an outermost one. */
uint32_t pb_torch_label(struct pb_torch *t, struct pb_torch_module *m);
/* "text", or "text#2" and so on; of the ring's dictionary. */
uint32_t pb_torch_numbered(struct pb_torch *t, uint32_t name, uint32_t number);
/* Dictionary number of a class's name, or PB_NULL_NAME. ret: the text's first bytes, or NULL. */
uint32_t pb_torch_type_name(struct pb_torch *t, struct _object *object, char *ret, size_t *ret_len);
uint32_t pb_torch_name(struct pb_torch *t, const char *s, size_t len);

/* step.c */
/* Borrowed: the optimizer whose steps count; NULL when there is none or it is gone. */
struct _object *pb_torch_main_optimizer(struct pb_torch *t);
/* What is known of one that has made a step; a zeroed one where there are too many. */
const struct pb_torch_optimizer *pb_torch_optimizer(struct pb_torch *t,
                                                   struct _object *optimizer);
int pb_torch_steps_enter(struct pb_torch *t, struct pb_err *err);
void pb_torch_steps_leave(struct pb_torch *t);
/* About once a second: where torch.compile is in use, steps may be seen in another way only. */
void pb_torch_steps_look(struct pb_torch *t);
/* A part that torch's profiler has a name for, a change of the grad mode. No exception pending. */
void pb_torch_on_enter(struct pb_torch *t, struct _object *name, struct _object *record);
void pb_torch_on_exit(struct pb_torch *t);
void pb_torch_on_grad_mode(struct pb_torch *t);

/* backward.c: autograd's engine. */
int pb_torch_backward_enter(struct pb_torch *t, struct pb_err *err);
void pb_torch_backward_leave(struct pb_torch *t);
/* Is this thread at a backward pass? */
bool pb_torch_in_pass(const struct pb_torch *t);

/* oom.c: python.out_of_memory. GIL. */
void pb_torch_oom_enter(struct pb_torch *t);
void pb_torch_oom_look(struct pb_torch *t);
/* An exception is on its way out of a call that began then; it stays as it is. */
void pb_torch_oom_check(struct pb_torch *t, const struct pb_torch_call *call, uint64_t began_ns);

/* builtin.c: functions of torch that tell a value. False: this torch has no such function. */
bool pb_torch_builtin_put(struct pb_torch *t, enum pb_torch_builtin_id id);
void pb_torch_builtins_enter(struct pb_torch *t, struct pb_err *err);
/* Those of a library that was imported since. */
void pb_torch_builtins_look(struct pb_torch *t);
void pb_torch_builtins_leave(struct pb_torch *t);

/* frame.c: who calls. Depth 0 is the innermost Python function. No exception pending. */
bool pb_torch_called_from(struct pb_torch *t, const struct _object *globals); /* 0 or 1 */
/* Is this within the call of another module? One that we do not know began before we came. */
bool pb_torch_called_within(struct pb_torch *t);
struct _object *pb_torch_frame(const struct pb_py *py, int depth); /* a new reference, or NULL */
/* Borrowed: the frame holds it. */
struct _object *pb_torch_frame_optimizer(struct pb_torch *t, struct _object *frame);
/* The same, where torch's profiler has just been told of a step. */
struct _object *pb_torch_step_optimizer(struct pb_torch *t);

/* value.c: a number that torch has computed. */
void pb_torch_values_enter(struct pb_torch *t);
/* The value of a tensor that has one element, or of a number; never waits for a GPU. */
void pb_torch_value_note(struct pb_torch *t, struct pb_cuda_value *v, struct _object *tensor);
/* A plain number: what has no attributes to ask for. */
bool pb_torch_is_float(const struct pb_torch *t, struct _object *object);
/* Backward was called on it. */
void pb_torch_loss_add(struct pb_torch *t, struct _object *tensor);
/* True when the sum is known, or known to be unknown. Drop: it is not waited for any more. */
bool pb_torch_loss_arrived(struct pb_torch *t, struct pb_torch_loss *l, bool drop);
struct _object *pb_torch_attribute(const struct pb_py *py, const char *module, const char *name);

/* brake.c: which step is traced and timed next. */
void pb_torch_choose_next(struct pb_torch *t, uint64_t took);
void pb_torch_take_call(struct pb_torch *t, double ns); /* what a recorded call has cost */
/* What we have done since then is part of our cost. */
static inline void pb_torch_own(struct pb_torch *t, uint64_t began_ns)
{
    t->sums.own_ns += pb_clock_ns() - began_ns;
}

void pb_torch_say(struct pb_torch *t);

/* memory.c: what is in tensors. */
#define PB_TORCH_MB (1024.0 * 1024.0)
/* Bytes that the process had before counting began: malloc's, or else what is resident. */
double pb_torch_memory_before(void);
void pb_torch_memory_look(struct pb_torch *t, uint64_t now);
/* MB, NULL where it is unknown. */
double pb_torch_mb(int64_t bytes);
double pb_torch_memory_peak(const struct pb_torch *t);
double pb_torch_memory_cached(const struct pb_torch *t);
/* The change between two, one of which may be unknown. */
static inline int64_t pb_torch_delta(int64_t before, int64_t after)
{
    bool known = before != PB_ALLOC_UNKNOWN && after != PB_ALLOC_UNKNOWN;

    return known ? after - before : PB_ALLOC_UNKNOWN;
}

#endif
