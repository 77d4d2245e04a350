/*
 * comm.h - what the parts of the collector of python.comm share.
 *
 * Owns: the operations that are under way in this process, and the process groups that were met.
 * Threads: everything has the GIL, but for what cxx.c and gpu.c do; it is let go while the start or
 * the end of an operation is put on a stream.
 * Fails: a figure that cannot be told is NULL in the row; the call itself goes on as ever.
 * Not here: modules and steps (torch/torch.h).
 *
 * Every call into torch.distributed from Python ends in a method of ProcessGroup, and every wait
 * in one of Work. Both are C++ classes whose methods stand in the class's dictionary: ours are put
 * there in their place, of the same kind, and call them. So functions that were imported long ago
 * are seen, and those of torch.distributed stay what the compiler knows them by.
 *
 * An operation has two rows, with the same time: one when it begins and one when it ends. What
 * hangs has the first alone.
 */
#ifndef PB_AGENT_COLLECT_COMM_COMM_H
#define PB_AGENT_COLLECT_COMM_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collect/driver.h"
#include "agent/self.h"
#include "base/err.h"
#include "store/tables/python_comm.h"
#include "store/writer.h"

enum {
    PB_COMM_OPS = 1024,   /* under way at once */
    PB_COMM_TICKETS = 8192,
    PB_COMM_GROUPS = 64,  /* process groups */
    PB_COMM_PEERS = 64,   /* ranks of a group whose messages are counted */
    PB_COMM_DTYPES = 16,
    PB_COMM_KINDS = 32,   /* methods */
    PB_COMM_BACKENDS = 2, /* of a group: for tensors on the CPU, and for others */
    PB_COMM_COUNTED = 4,  /* classes of backends whose counters are known */
    PB_COMM_SCAN = 256,   /* words of a backend that are looked through */
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

/*
 * A backend of a group: where torch itself counts its operations. Read without the GIL; `at` is set
 * last, and 0 for none.
 */
struct pb_comm_watch {
    _Atomic uintptr_t at;
    _Atomic uint32_t name; /* of the group */
    _Atomic int64_t size, skew; /* skew: what torch counted besides collectives */
    atomic_flag lock;           /* for the next two, and for a few instructions only */
    int64_t last;               /* operations up to this one have a row */
    uint64_t some;              /* and some of those behind it: a bit for each */
    int64_t behind;             /* what last was behind at the last look */
};

struct pb_comm_group {
    struct _object *object; /* address only */
    struct _object *weak;   /* NULL: free */
    struct _object *ranks; /* dict: rank in the job -> rank in the group; or NULL for all ranks */
    uint32_t name;
    int64_t size, rank;
    int64_t mine;         /* rank in the job */
    int64_t asked, found; /* the last other rank that was asked for, and its rank in the job */
    int64_t counted; /* collectives, where torch does not count them */
    int64_t pairs[2][PB_COMM_PEERS]; /* received from and sent to each */
    struct _object *types[PB_COMM_BACKENDS]; /* classes of its backends; address only */
    uintptr_t backends[PB_COMM_BACKENDS];    /* their C++ objects, 0: none of its own */
    bool cpu;                                /* one is for tensors on the CPU */
    int64_t skew[PB_COMM_BACKENDS];
};

/* Where in the objects of a class the counter is: words that agreed with it so far. */
struct pb_comm_counter {
    struct _object *type; /* address only; NULL: free */
    bool agreed[PB_COMM_SCAN];
    int64_t value; /* at the last look */
    int looks;     /* at different values */
    int word;      /* where it is, or -1 */
};

/* at::RecordFunctionCallback, the same from torch 1.13 to 2.13. */
struct pb_comm_callback {
    void *(*start)(void **ret, const void *record);
    void (*end)(const void *record, void *context);
    double probability;
    uint8_t scopes[10], needs[3];
};

enum pb_comm_life { PB_COMM_FREE, PB_COMM_TAKEN, PB_COMM_OPEN, PB_COMM_ENDED };

/* How far the GPU's part of an operation is marked by events on its streams. */
enum pb_comm_marks { PB_COMM_UNMARKED, PB_COMM_FROM, PB_COMM_BOTH };

/* Handed to torch with an event, and kept by it for longer than the operation takes. */
struct pb_comm_ticket {
    const void *functions; /* what C++ looks for in an object of its own; first */
    struct pb_comm_op *_Atomic op; /* until torch says that it is over */
    _Atomic bool taken;
};

struct pb_comm_op {
    _Atomic int life;
    _Atomic int holders;   /* the call and its handle in Python, and torch */
    _Atomic bool matched;  /* torch has said that it began */
    _Atomic bool by_torch; /* torch will say when it ends */
    const char *name;      /* of what Python began, or NULL */
    _Atomic uintptr_t caller; /* the thread that is in the call from Python, or 0 */
    bool device;           /* its data is on a GPU */
    bool counts;           /* among those that are under way by torch's word */
    bool coalesced;        /* goes to the GPU with others, when all are told */
    bool by_wait;          /* no event of torch's tells its end: behind its wait it is over */
    _Atomic int marks;
    void *from, *to;       /* CUDA events; of this place for ever, once made */
    struct _object *work;  /* address only */
    struct _object *weak;  /* of work */
    uint32_t ring_number;  /* of the ring that the names are for */
    int64_t before;        /* torch's count */
    struct pb_comm_watch *watch; /* of the group, or NULL */
    uint64_t began_ns;
    union pb_cell row[PB_COMM_COLUMNS];
};

/* cxx.c: operations that torch begins by itself. */
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
    int64_t behind; /* what we were behind torch's count at the last look */
    _Atomic int in_flight;
    _Atomic bool counts_first; /* torch counts an operation before it tells of it */
    _Atomic uint64_t events;
    _Atomic int64_t total; /* of all counters, at the last event */
    _Atomic unsigned next_ticket;
    struct pb_comm_ticket tickets[PB_COMM_TICKETS];
};

/* tensor.c: where torch keeps what an event is about. -1: not known. */
struct pb_comm_tensor {
    _Atomic int inputs;        /* word in the event: list, then its length */
    _Atomic int count, dtype;  /* word and half word in a tensor */
    int device, object;        /* byte in a tensor, and word with its address in Python's object */
    struct _object *types[2];  /* of Python's objects that have it there */
    uint32_t tag;              /* of a value that is a tensor */
    _Atomic uintptr_t thread;  /* that tries it out; 0: nobody */
    uintptr_t tensor;          /* what it tries it with */
    bool words[PB_COMM_SCAN];  /* that agreed so far */
    int rounds;
    _Atomic uint32_t names[32]; /* of types, in the ring */
};

/* gpu.c: the driver, and torch's functions for the stream of a thread. */
struct pb_comm_gpu {
    _Atomic int state; /* 0: not looked for yet; 1: there; -1: will not work */
    struct pb_driver driver;
    void *get_stream, *to_raw;
    void *_Atomic context;
    _Atomic int waiting; /* operations with both marks */
    _Atomic uint64_t polled_ns;
    atomic_flag polled;
    _Atomic int coalescing; /* groups that collect operations */
    /* Under `polled`. Times on the GPU are counted from this event, which is renewed. */
    void *base;
    uint64_t base_ns;
    double last_ms;           /* up to where operations have been counted */
    _Atomic uint64_t busy_ns; /* time with any of them at work, not yet asked for */
};

/* quiet.c: torch's functions for the events of a thread. GIL. */
struct pb_comm_quiet {
    bool looked_for;
    void *get;
    void (*enable)(bool);
    uint8_t unsaid[PB_COMM_KINDS]; /* calls in a row that did not say whether somebody waits */
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
    pid_t pid;
    _Atomic bool on;
    struct pb_ring *_Atomic ring;
    _Atomic uint32_t ring_number;
    uint32_t started, enqueued, done, failed, dropped, captured, seen; /* names of states */
    uint32_t job;
    uint32_t ops_named[PB_COMM_KINDS];
    struct pb_comm_method methods[PB_COMM_KINDS], waits[2], makers[4];
    struct _object *module;   /* torch.distributed.distributed_c10d */
    struct _object *sequence; /* ProcessGroup._get_sequence_number_for_group */
    struct _object *devices[PB_COMM_BACKENDS]; /* torch.device: another one, the CPU */
    struct pb_comm_group groups[PB_COMM_GROUPS];
    struct pb_comm_watch watches[PB_COMM_GROUPS][PB_COMM_BACKENDS];
    struct pb_comm_counter counters[PB_COMM_COUNTED];
    struct {
        struct _object *dtype;
        uint32_t name;
    } dtypes[PB_COMM_DTYPES];
    struct pb_comm_op ops[PB_COMM_OPS];
    _Atomic size_t ops_used; /* entries that were ever used, the first ones */
    _Atomic int calls;       /* of them: in a call from Python */
    int handles;             /* of them: whose handle in Python is known */

    /* Time with anything under way: since when (in units of 64 ns) and how many, in one word. */
    _Atomic uint64_t busy, busy_ns;

    struct pb_comm_cxx cxx;
    struct pb_comm_tensor tensor;
    struct pb_comm_gpu gpu;
    struct pb_comm_quiet quiet;
};

struct pb_comm *pb_comm_state(struct pb_self *self);

/*
 * Any thread: time with operations under way since the last call of this, up to now; what goes on
 * is counted up to now and the rest the next time. So each step has what was in its own window.
 */
uint64_t pb_comm_window_ns(struct pb_self *self, uint64_t now);
/* GPU's time with operations at work whose end was seen since the last call of this. */
uint64_t pb_comm_gpu_window_ns(struct pb_self *self);
/* The first one without ending the window: for the difference between two times within it. */
uint64_t pb_comm_so_far_ns(struct pb_self *self, uint64_t now);

/* ops.c: any thread. */
/* Number of a name in the ring; the collector may have left at any time. */
uint32_t pb_comm_name(struct pb_comm *c, const char *s, size_t len);
struct pb_comm_op *pb_comm_take(struct pb_comm *c); /* NULL: too many are under way */
void pb_comm_begin(struct pb_comm *c, struct pb_comm_op *op, uint32_t state);
/* Its last row, once; latency by our clock, or as it was measured, or NULL of a REAL. */
void pb_comm_end(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now);
void pb_comm_end_ms(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, double ms);
/* Another last word after that. */
void pb_comm_amend(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now);
/* One holder more of an operation that is not given up meanwhile; one less. Without any it is
 * free for another operation. */
bool pb_comm_hold(struct pb_comm_op *op);
void pb_comm_drop(struct pb_comm_op *op);
/* Between these two the process communicates. */
void pb_comm_busy(struct pb_comm *c, uint64_t now);
void pb_comm_idle(struct pb_comm *c, uint64_t now);

/* args.c: GIL, no exception pending before or after. Fills all but time and state. */
void pb_comm_describe(struct pb_comm *c, size_t kind, struct _object *args,
                      struct _object *kwargs, struct pb_comm_op *op);
/* After the call: torch counts messages, too, in some versions. We do not, so that ranks agree. */
void pb_comm_settle(struct pb_comm *c, size_t kind, struct _object *args,
                    const struct pb_comm_op *op);
void pb_comm_blank(struct pb_comm *c, union pb_cell *row);

/* groups.c: GIL as above. */
struct pb_comm_group *pb_comm_group(struct pb_comm *c, struct _object *group);
/* From a rank in a group to the rank in the job. */
int64_t pb_comm_job_rank(struct pb_comm *c, const struct pb_comm_group *g, int64_t rank);
void pb_comm_groups_forget(struct pb_comm *c);
int64_t pb_comm_int(const struct pb_py *py, struct _object *o, const char *name, bool call);
/* The group's own count of operations on such tensors, or -1. */
int64_t pb_comm_sequence(struct pb_comm *c, struct _object *group, bool device);
/* Looks at all groups there are. */
void pb_comm_groups_look(struct pb_comm *c, void (*see)(struct pb_comm *c, struct _object *group));

/* watch.c: torch's counters in its memory. */
/* Any thread: this process's memory, through the kernel; bytes, or -1. */
int64_t pb_comm_read(const struct pb_comm *c, void *to, uintptr_t from, size_t len);
int pb_comm_backend(const struct pb_comm_group *g, bool device); /* which of them */
/* GIL: learns where the counter is, from one that is known; starts or goes on to watch it. */
void pb_comm_watch(struct pb_comm *c, struct pb_comm_group *g, struct _object *group);
void pb_comm_unwatch(struct pb_comm *c, const struct pb_comm_group *g);
/* GIL: it has other backends now. */
void pb_comm_backends_forget(struct pb_comm *c, struct _object *group);
/* Of a group that the caller holds, and that holds its backends. Or -1: it is not watched. */
int64_t pb_comm_watched(struct pb_comm *c, const struct pb_comm_group *g, bool device);
/* Any thread: these have a row. */
void pb_comm_watch_told(struct pb_comm_watch *w, int64_t first, int64_t last);
/* Any thread: a group that has counted what nobody has told of; the number of that, or -1. */
int64_t pb_comm_watch_moved(struct pb_comm *c, struct pb_comm_watch **ret);
int64_t pb_comm_watch_count(const struct pb_comm *c, const struct pb_comm_watch *w); /* or -1 */
/* Any thread: what was counted up to now has a row, or will never have one. */
void pb_comm_watch_from_here(struct pb_comm *c);
/* Any thread: of all counters. */
int64_t pb_comm_watch_total(struct pb_comm *c);

/* tensor.c: the tensors of an event. */
void pb_comm_tensor_learn(struct pb_comm *c); /* GIL */
/* GIL: of a tensor that the caller holds. False: it is none that is known. */
bool pb_comm_tensor_held(const struct pb_comm *c, struct _object *o, int64_t *ret_bytes,
                         uint32_t *ret_dtype, bool *ret_device);
/* Into the row; or NULL there. */
void pb_comm_tensor_measure(struct pb_comm *c, const void *record, union pb_cell *row);

/* gpu.c: any thread, but no two for one operation. */
void pb_comm_gpu_begins(struct pb_comm *c, struct pb_comm_op *op);
void pb_comm_gpu_ends(struct pb_comm *c, struct pb_comm_op *op);
/* Writes the ends of what is done. Only where this thread works with the GPU anyway. */
void pb_comm_gpu_poll(struct pb_comm *c);
void pb_comm_gpu_forget(struct pb_comm *c);
void pb_comm_gpu_forked(struct pb_comm *c);

/*
 * cxx.c: operations that torch begins by itself, without Python. Enter and leave have
 * the GIL; what torch calls has not.
 */
int pb_comm_cxx_enter(struct pb_comm *c, struct pb_err *err);
void pb_comm_cxx_leave(struct pb_comm *c);
/* GIL: which group can be meant, and how far it has come. */
void pb_comm_cxx_look(struct pb_comm *c);
/* Are these what torch has from us? */
bool pb_comm_cxx_is_ours(uintptr_t start, uintptr_t end);

/*
 * quiet.c: GIL. True: this thread has no events of torch's until the end is called,
 * since the operation needs none.
 */
bool pb_comm_quiet_begin(struct pb_comm *c, size_t kind, struct _object *args,
                         struct _object *kwargs, struct pb_comm_op *op);
void pb_comm_quiet_end(struct pb_comm *c);

#endif
