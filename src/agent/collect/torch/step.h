/*
 * step.h - what a step is made of: its parts, data, losses, and its row of python.training_logs.
 *
 * Owns: nothing; these are parts of the collector's state (torch.h).
 * Threads: every call into these files has the GIL.
 * Fails: what cannot be told is NULL in the row.
 * Not here: calls of modules (torch.h), how optimizers are seen (step.c, builtin.c).
 */
#ifndef PB_AGENT_COLLECT_TORCH_STEP_H
#define PB_AGENT_COLLECT_TORCH_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/collect/torch/gpu.h"
#include "base/settings.h"
#include "store/tables/python_training_logs.h"
#include "store/writer.h"

struct pb_torch;

enum {
    PB_TORCH_FEEDS = 8,       /* sets of data in use at once */
    PB_TORCH_OPTIMIZERS = 16, /* that are told apart */
    PB_TORCH_AHEAD = 64,      /* batches that a loop has fetched for one step */
    PB_TORCH_COMING = 8,      /* losses of one step that are on their way at once */
    PB_TORCH_LATE = 64,       /* steps whose loss is still on its way */
};

enum {
#define X(name, type, unit, doc) PB_TORCH_LOG_##name,
    PB_PYTHON_TRAINING_LOGS(X)
#undef X
        PB_TORCH_LOG_COLUMNS
};

/*
 * A part of a step that is under way: forward, backward, optimizer or data. One inside of another
 * has its time for itself alone, so that the parts of a step never add up to more than the step.
 */
struct pb_torch_part {
    uint64_t began_ns;
    uint64_t counted_ns; /* time of all parts that had ended by then */
    uint64_t comm_ns;    /* between ranks by then, of the whole step */
    uint64_t inside_ns;  /* and of that within parts */
};

/* What happened since the last step ended. */
struct pb_torch_sums {
    uint64_t forward_ns, backward_ns, optimizer_ns;
    uint64_t comm_ns; /* between ranks, during these */
    uint64_t own_ns; /* what we spent ourselves */
    uint32_t backwards, rows;
};

/* What the loaders have given to a step, as far as it has come. */
struct pb_torch_fed {
    uint64_t data_ns;
    int64_t samples;
    /* Of each set of data: waited for it, and batches in which pass over it. */
    uint64_t ns[PB_TORCH_FEEDS];
    uint32_t batches[PB_TORCH_FEEDS], pass[PB_TORCH_FEEDS];
    bool greedy[PB_TORCH_FEEDS];
};

/* What backward was called on since the gradients were cleared: the sum of it. */
struct pb_torch_loss {
    double sum;
    uint32_t ncoming, n;
    bool unknown; /* one could not be told */
    bool done;    /* a step was made with it, or the gradients were cleared */
    struct pb_cuda_value coming[PB_TORCH_COMING];
};

/* Who counts steps or epochs: X(id, name). */
#define PB_TORCH_SOURCE(X)                                                                        \
    X(INJECTION, "injection") X(OPTIMIZER, "optimizer") X(SAMPLER, "sampler")                     \
    X(EXPRESSION, "expression")

enum pb_torch_source {
#define X(id, name) PB_TORCH_BY_##id,
    PB_TORCH_SOURCE(X)
#undef X
        PB_TORCH_SOURCES
};

/* A name of python.torch_trace in python.training_logs. */
struct pb_torch_renamed {
    uint32_t from, to;
};

/* A row of python.training_logs with values that are still on their way. */
struct pb_torch_late {
    union pb_cell row[PB_TORCH_LOG_COLUMNS];
    struct pb_torch_loss loss;
    struct pb_cuda_value norm, scale;
    bool scaled, inverse; /* scale is what the loss is to be multiplied with */
    uint64_t ended_ns;
};

/*
 * A step of an optimizer whose steps do not count. It has a row if it was made with a loss that no
 * step which counts is made with.
 */
struct pb_torch_other {
    bool pending;
    uint64_t ended_ns;
    struct _object *weak; /* of the optimizer */
    union pb_cell row[PB_TORCH_LOG_COLUMNS];
};

/* A set of data that loaders go through, batch by batch. */
struct pb_torch_feed {
    struct _object *data, *iterator; /* borrowed: compared, never used */
    uint32_t pass;    /* over the data */
    int64_t epoch, epoch_before; /* as its sampler says, of this pass and the one before; or -1 */
    uint64_t used;    /* when it was asked last, counted */
    uint64_t began, before; /* the same, of this pass and of the one before it */
    uint64_t data_ns;    /* waited for it since the last step */
    uint64_t forward_ns; /* spent on it before it was known to feed steps */
    uint32_t nsizes;
    bool trains;  /* it feeds steps, not an evaluation */
    bool touched; /* since the last forward */
    bool ended;   /* the pass came to its end */
    bool greedy;  /* a step takes all that is there */
    int64_t sizes[PB_TORCH_AHEAD]; /* batches that no step has taken yet */
};

/* One that has made steps. */
struct pb_torch_optimizer {
    struct _object *weak; /* NULL: free */
    uint32_t type, number, label;
    uint32_t model; /* label of the module that has its parameters */
};

/* A backward pass that may be the end of a step which no optimizer ends (hand.c). */
struct pb_torch_hand {
    bool pending;
    bool ends;      /* steps have ended like that */
    bool by_forward; /* the next forward is enough to know it: gradients are cleared after that */
    bool asked;     /* a model was called since, and it was not known yet */
    bool has_probe;
    uint64_t ended_ns, counted_ns;
    uint64_t comm_ns; /* between ranks in the step by then */
    int64_t epoch;
    struct pb_torch_sums sums; /* as they were then */
    struct pb_torch_fed fed;
    struct _object *weak; /* of a parameter that got a gradient */
    const struct _object *grad; /* address only */
    int64_t grad_version, version; /* how often the two were written to */
};

/* A number that the user names by an expression (number.c). */
enum pb_torch_number_id { PB_TORCH_NUMBER_STEP, PB_TORCH_NUMBER_EPOCH, PB_TORCH_NUMBERS };

struct pb_torch_number {
    char text[PB_SETTING_VALUE_MAX]; /* as it was compiled */
    struct _object *code;
    bool works;
    uint32_t slow; /* times in a row that it took too long */
};

/* number.c: no exception pending. False: there is no such expression, or it does not work. */
bool pb_torch_number(struct pb_torch *t, enum pb_torch_number_id which, int64_t *ret);
/* About once a second: the settings may have changed. */
void pb_torch_numbers_look(struct pb_torch *t);
void pb_torch_numbers_leave(struct pb_torch *t);

/* part.c */
void pb_torch_part_begins(struct pb_torch *t, struct pb_torch_part *p, uint64_t now);
/* Its own time in this step. */
uint64_t pb_torch_part_ends(struct pb_torch *t, const struct pb_torch_part *p, uint64_t now);
/* Does this thread make the steps, as far as is known? */
bool pb_torch_makes_steps(const struct pb_torch *t);
void pb_torch_steps_are_here(struct pb_torch *t);

/* hand.c: steps without an optimizer. GIL, no exception pending. */
/* Before a backward pass, and after one that ended then. */
void pb_torch_hand_backward(struct pb_torch *t);
void pb_torch_hand_passed(struct pb_torch *t, uint64_t now);
/* It is about to be called, in no other one. */
void pb_torch_hand_forward(struct pb_torch *t, struct _object *module);
/* About once a second: nothing may follow the last backward. */
void pb_torch_hand_look(struct pb_torch *t, uint64_t now);
/* The label of the outermost module that has this parameter, or PB_NULL_NAME. */
uint32_t pb_torch_model_with(struct pb_torch *t, struct _object *parameter);
/* An optimizer has made a step. */
void pb_torch_hand_drop(struct pb_torch *t);
void pb_torch_hand_leave(struct pb_torch *t);

/* feed.c: batches of data. */
struct _object *pb_torch_on_next(struct _object *iterator);
/* A root was called: adds its time to the step's, if it is part of one. */
void pb_torch_feed_forward(struct pb_torch *t, bool training, bool has_children, uint64_t ns);
void pb_torch_feed_backward(struct pb_torch *t);
/* What the step has had so far, if it ended now. Counts epochs. Before the sums. */
void pb_torch_feed_measure(struct pb_torch *t, struct pb_torch_fed *ret);
/* It has ended with that. */
void pb_torch_feed_take(struct pb_torch *t, const struct pb_torch_fed *fed);
/* In training mode, with gradients. */
bool pb_torch_is_training(struct pb_torch *t, struct _object *root);

/* logs.c: rows of python.training_logs. */
void pb_torch_step_ended(struct pb_torch *t, struct _object *optimizer, uint64_t now);
/* One of an optimizer whose steps do not count. */
void pb_torch_step_other(struct pb_torch *t, struct _object *optimizer, uint64_t now);
/* The loss of that is no other step's: it gets its row. */
void pb_torch_other_write(struct pb_torch *t);
/* The same with the last backward pass (t->hand). */
void pb_torch_step_ended_by_hand(struct pb_torch *t);
/* Inference: a root has been called and no optimizer is about. */
void pb_torch_forward_counts(struct pb_torch *t, bool training);
/* Writes rows whose values have come; all of them, known or not, at the end. */
void pb_torch_logs_poll(struct pb_torch *t, bool all);

#endif
