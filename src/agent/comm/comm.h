/*
 * comm.h - the collector of python.comm: its state, made of one part for each subject.
 *
 * Owns: the state (one per process); each part belongs to its own files.
 * Threads: GIL held, but for what events.h and gpu.h do; it is given up while the start or the end
 * of an operation is put on a stream.
 * Fails: a figure that is not known is NULL in the row; the call itself goes on as ever.
 * Not here: modules and steps (torch/), which use the times of ops.h.
 *
 * Every call into torch.distributed from Python ends in a method of ProcessGroup, and every wait
 * in one of Work. Both are C++ classes whose methods stand in the class's dictionary: ours are put
 * there in their place, of the same kind, and call them. So functions that were imported long ago
 * are seen, and those of torch.distributed stay what the compiler knows them by.
 */
#ifndef PB_AGENT_COMM_COMM_H
#define PB_AGENT_COMM_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/comm/events.h"
#include "agent/comm/gpu.h"
#include "agent/comm/groups.h"
#include "agent/comm/kinds.h"
#include "agent/comm/mute.h"
#include "agent/comm/ops.h"
#include "agent/comm/tensor.h"
#include "agent/py/object.h"
#include "agent/collectors/state.h"
#include "agent/core/self.h"
#include "base/clock.h"
#include "base/err.h"

enum { PB_COMM_DTYPES = 16, PB_COMM_WAITS = 2, PB_COMM_MAKERS = 4 };

/* A method of a class that was replaced. */
struct pb_comm_method {
    struct _object *type;
    struct _object *original; /* what stood in the class */
    struct _object *call;     /* the function in it */
    struct _object *ours;
};

/* Dictionary: states of an operation in python.comm. */
struct pb_comm_states {
    uint32_t started, enqueued, done, failed, dropped, captured, seen;
};

struct pb_comm {
    struct pb_self *self;
    pid_t pid;
    _Atomic bool on;
    struct pb_ring *_Atomic ring;
    _Atomic uint32_t ring_number; /* generation of the ring: names of another mean nothing */
    struct pb_comm_states states;
    uint32_t job;                      /* dictionary: address of the job's master */
    uint32_t ops_named[PB_COMM_KINDS]; /* dictionary: operations */
    uint32_t ops_shown[PB_COMM_KINDS]; /* names for readers outside (progress.h) */
    struct {
        struct _object *dtype;
        uint32_t name; /* dictionary */
    } dtypes[PB_COMM_DTYPES];
    struct pb_comm_method methods[PB_COMM_KINDS], waits[PB_COMM_WAITS], makers[PB_COMM_MAKERS];

    struct pb_comm_time time;
    struct pb_comm_ops ops;
    struct pb_comm_groups groups;
    struct pb_comm_events events;
    struct pb_comm_tensor tensor;
    struct pb_comm_gpu gpu;
    struct pb_comm_mute mute;
};

/* The state, or NULL before the first start. */
struct pb_comm *pb_comm_state(struct pb_self *self);

/* calls.c: GIL held. */
/* Puts our functions in place of ProcessGroup's and Work's methods. */
int pb_comm_calls_enter(struct pb_comm *c, struct _object *group, struct _object *work,
                        struct pb_err *err);
void pb_comm_calls_leave(struct pb_comm *c);
/* About once a second: ends of operations whose handle nobody waits for. */
void pb_comm_calls_poll(struct pb_comm *c, uint64_t now);

/*
 * methods.c: GIL held. Puts a function of ours into a class, with a number as its first argument.
 * What was there is looked up once and kept for ever, since a call may be under way.
 */
bool pb_comm_method_install(const struct pb_py *py, struct pb_comm_method *m, struct _object *type,
                            struct pb_py_method *def, size_t number);
/* Puts back what was there, unless somebody has put something over ours, which then passes on. */
void pb_comm_method_restore(const struct pb_py *py, struct pb_comm_method *m, const char *name);

/* args.c: GIL held, no exception pending before or after. */
/* Fills the row but for time and state. */
void pb_comm_describe(struct pb_comm *c, size_t kind, struct _object *args,
                      struct _object *kwargs, struct pb_comm_op *op);
/* After the call: some versions of torch count messages, too, and ranks would not agree. */
void pb_comm_describe_after(struct pb_comm *c, size_t kind, struct _object *args,
                            const struct pb_comm_op *op);
/* Any thread: a row about which nothing is known but step and job. */
void pb_comm_clear_row(struct pb_comm *c, union pb_cell *row);

#endif
