/*
 * torch_comm.h - what the parts of the collector of python.comm share.
 *
 * Owns: the operations that are under way in this process, and the process groups that were met.
 * Threads: everything has the GIL, but for what torch_comm_cxx.c says.
 * Fails: a figure that cannot be told is NULL in the row; the call itself goes on as ever.
 * Not here: modules and steps (torch.h).
 *
 * Every call into torch.distributed from Python ends in a method of ProcessGroup, and every wait
 * in one of Work. Both are C++ classes whose methods stand in the class's dictionary: ours are put
 * there in their place, of the same kind, and call them. So functions that were imported long ago
 * are seen, and those of torch.distributed stay what the compiler knows them by.
 *
 * An operation has two rows, with the same time: one when it begins and one when it ends. What
 * hangs has the first alone.
 */
#ifndef PB_AGENT_COLLECT_TORCH_COMM_H
#define PB_AGENT_COLLECT_TORCH_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/self.h"
#include "base/err.h"
#include "store/tables/python_comm.h"
#include "store/writer.h"

enum {
    PB_COMM_OPS = 256,    /* under way at once */
    PB_COMM_GROUPS = 64,  /* process groups */
    PB_COMM_PEERS = 64,   /* ranks of a group whose messages are counted */
    PB_COMM_DTYPES = 16,
    PB_COMM_KINDS = 32,   /* methods */
};

enum {
#define X(name, type, unit, doc) PB_COMM_AT_##name,
    PB_PYTHON_COMM(X)
#undef X
        PB_COMM_COLUMNS
};

/* Which rank a method names, and where. */
enum pb_comm_role { PB_COMM_ALL, PB_COMM_FROM_ROOT, PB_COMM_TO_ROOT, PB_COMM_SEND, PB_COMM_RECV };

struct pb_comm_kind {
    const char *method, *op;
    int data; /* which argument holds this rank's data, 0 for none */
    enum pb_comm_role role;
};

/* Methods of ProcessGroup, in all versions of torch. X(method, op, data, role) */
#define PB_COMM_METHODS(X)                                                                        \
    X(allreduce, all_reduce, 1, PB_COMM_ALL)                                                      \
    X(allreduce_coalesced, all_reduce_coalesced, 1, PB_COMM_ALL)                                  \
    X(broadcast, broadcast, 1, PB_COMM_FROM_ROOT)                                                 \
    X(reduce, reduce, 1, PB_COMM_TO_ROOT)                                                         \
    X(allgather, all_gather, 2, PB_COMM_ALL)                                                      \
    X(_allgather_base, all_gather_into_tensor, 2, PB_COMM_ALL)                                    \
    X(all_gather_single, all_gather_into_tensor, 2, PB_COMM_ALL)                                  \
    X(allgather_coalesced, all_gather_coalesced, 2, PB_COMM_ALL)                                  \
    X(all_gather_single_coalesced, all_gather_into_tensor_coalesced, 2, PB_COMM_ALL)              \
    X(allgather_into_tensor_coalesced, all_gather_into_tensor_coalesced, 2, PB_COMM_ALL)          \
    X(gather, gather, 2, PB_COMM_TO_ROOT)                                                         \
    X(scatter, scatter, 1, PB_COMM_FROM_ROOT)                                                     \
    X(reduce_scatter, reduce_scatter, 2, PB_COMM_ALL)                                             \
    X(_reduce_scatter_base, reduce_scatter_tensor, 2, PB_COMM_ALL)                                \
    X(reduce_scatter_single, reduce_scatter_tensor, 2, PB_COMM_ALL)                               \
    X(reduce_scatter_single_coalesced, reduce_scatter_tensor_coalesced, 2, PB_COMM_ALL)           \
    X(reduce_scatter_tensor_coalesced, reduce_scatter_tensor_coalesced, 2, PB_COMM_ALL)           \
    X(alltoall_base, all_to_all_single, 2, PB_COMM_ALL)                                           \
    X(all_to_all_single, all_to_all_single, 2, PB_COMM_ALL)                                       \
    X(alltoall, all_to_all, 2, PB_COMM_ALL)                                                       \
    X(send, send, 1, PB_COMM_SEND)                                                                \
    X(recv, recv, 1, PB_COMM_RECV)                                                                \
    X(recv_anysource, recv, 1, PB_COMM_RECV)                                                      \
    X(barrier, barrier, 0, PB_COMM_ALL)                                                           \
    X(monitored_barrier, monitored_barrier, 0, PB_COMM_ALL)

/* In that order; ends with a NULL method. */
extern const struct pb_comm_kind pb_comm_kinds[];

struct pb_comm_group {
    struct _object *weak;  /* NULL: free */
    struct _object *ranks; /* dict: rank in the job -> rank in the group; or NULL for all ranks */
    uint32_t name;
    int64_t size, rank;
    int64_t skew;    /* what torch counted besides collectives */
    int64_t counted; /* collectives, where torch does not count them */
    int64_t pairs[2][PB_COMM_PEERS]; /* received from and sent to each */
};

/* at::RecordFunctionCallback, the same from torch 1.13 to 2.13. */
struct pb_comm_callback {
    void *(*start)(void **ret, const void *record);
    void (*end)(const void *record, void *context);
    double probability;
    uint8_t scopes[10], needs[3];
};

enum pb_comm_life { PB_COMM_FREE, PB_COMM_TAKEN, PB_COMM_OPEN, PB_COMM_ENDED };

struct pb_comm_op {
    const void *functions; /* what C++ looks for in an object of its own; first */
    _Atomic int life;
    _Atomic int holders;   /* the call and its handle in Python, and torch */
    _Atomic bool matched;  /* torch has said that it began */
    _Atomic bool by_torch; /* torch will say when it ends */
    const char *name;      /* of what Python began, or NULL */
    struct _object *work;  /* address only */
    struct _object *weak;  /* of work */
    uint32_t ring_number;  /* of the ring that the names are for */
    int64_t before;        /* torch's count */
    uint64_t began_ns;
    union pb_cell row[PB_COMM_COLUMNS];
};

/* torch_comm_cxx.c: operations that torch begins by itself. */
struct pb_comm_cxx {
    bool looked_for;
    uint64_t (*add)(struct pb_comm_callback);
    void (*remove)(uint64_t);
    const char *(*name)(const void *);
    uint64_t callback; /* number of ours in torch */
    bool in;
    _Atomic int tested; /* calls seen of the self-test */
    /* The only group of this process, if there is one: what else could be meant? */
    _Atomic bool only;
    _Atomic uint32_t group;
    _Atomic int64_t size, seq; /* seq: number of its last operation */
    _Atomic int in_flight;
    _Atomic uint64_t busy_ns; /* since when there are some in flight */
    int64_t behind; /* what we were behind torch's count at the last look */
};

/* A method that was replaced. */
struct pb_comm_method {
    struct _object *type;
    struct _object *was;  /* as it stood in the class */
    struct _object *call; /* the function in it */
    struct _object *ours;
};

struct pb_comm {
    struct pb_self *self;
    _Atomic bool on;
    struct pb_ring *_Atomic ring;
    _Atomic uint32_t ring_number;
    uint32_t started, enqueued, done, failed, dropped, seen; /* names of states */
    uint32_t job;
    uint32_t ops_named[PB_COMM_KINDS];
    struct pb_comm_method methods[PB_COMM_KINDS], waits[2];
    struct _object *module;   /* torch.distributed.distributed_c10d */
    struct _object *sequence; /* ProcessGroup._get_sequence_number_for_group */
    struct pb_comm_group groups[PB_COMM_GROUPS];
    struct {
        struct _object *dtype;
        uint32_t name;
    } dtypes[PB_COMM_DTYPES];
    struct pb_comm_op ops[PB_COMM_OPS];
    _Atomic size_t ops_used; /* entries that were ever used, the first ones */

    struct pb_comm_cxx cxx;
};

struct pb_comm *pb_comm_state(struct pb_self *self);

/* torch_comm.c: any thread. */
struct pb_comm_op *pb_comm_take(struct pb_comm *c); /* NULL: too many are under way */
void pb_comm_begin(struct pb_comm *c, struct pb_comm_op *op, uint32_t state);
/* Its last row, once. */
void pb_comm_end(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now);
/* One holder less; without any it is free for another operation. */
void pb_comm_drop(struct pb_comm_op *op);

/* torch_comm_args.c: GIL, no exception pending before or after. Fills all but time and state. */
void pb_comm_describe(struct pb_comm *c, size_t kind, struct _object *args,
                      struct _object *kwargs, struct pb_comm_op *op, bool *ret_device);
/* After the call: torch counts messages, too, in some versions. We do not, so that ranks agree. */
void pb_comm_settle(struct pb_comm *c, size_t kind, struct _object *args,
                    const struct pb_comm_op *op);
void pb_comm_blank(struct pb_comm *c, union pb_cell *row);
struct pb_comm_group *pb_comm_group(struct pb_comm *c, struct _object *group);
/* The group's own count of operations, or -1. */
int64_t pb_comm_sequence(struct pb_comm *c, struct _object *group);
void pb_comm_groups_forget(struct pb_comm *c);

/*
 * torch_comm_cxx.c: operations that torch begins by itself, without Python. Enter and leave have
 * the GIL; what torch calls has not.
 */
int pb_comm_cxx_enter(struct pb_comm *c, struct pb_err *err);
void pb_comm_cxx_leave(struct pb_comm *c);
/* GIL: which group can be meant, and how far it has come. */
void pb_comm_cxx_look(struct pb_comm *c);

#endif
