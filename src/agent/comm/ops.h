/*
 * ops.h - operations under way: their entries, rows, and the time that they take together.
 *
 * Owns: an entry for each operation that has begun and is not forgotten.
 * Threads: any, with or without the GIL. An entry is kept by the call and its handle in Python, and
 * by torch; whoever keeps it may use it.
 * Fails: NULL when too many operations are under way: those are not seen.
 * Not here: what an operation is about (args.c), who begins one (calls.c, events.h).
 *
 * An operation has two rows, with the same timestamp: one when it begins and one when it ends. What
 * hangs has the first alone.
 */
#ifndef PB_AGENT_COMM_OPS_H
#define PB_AGENT_COMM_OPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "schema/python_comm.h"
#include "store/writer.h"

struct pb_comm;
struct pb_comm_watch;
struct pb_self;
struct _object;

enum { PB_COMM_OPS = 1024 };

enum {
#define X(name, type, unit, doc) PB_COMM_AT_##name,
    PB_PYTHON_COMM(X)
#undef X
        PB_COMM_COLUMNS
};

enum pb_comm_life { PB_COMM_FREE, PB_COMM_CLAIMED, PB_COMM_OPEN, PB_COMM_ENDED };

/* How far the GPU's part of an operation is marked by events on its streams. */
enum pb_comm_marks { PB_COMM_UNMARKED, PB_COMM_FROM, PB_COMM_BOTH };

struct pb_comm_op {
    _Atomic int life;         /* enum pb_comm_life */
    _Atomic int keepers;      /* call and handle in Python, and torch; 0: the entry is free */
    _Atomic bool matched;     /* torch has said that it began */
    _Atomic bool by_torch;    /* torch will say when it ends */
    const char *name;         /* operation that Python began; NULL: torch did */
    uint32_t shown, shown_group; /* names for readers outside (progress.h); 0: none */
    _Atomic uintptr_t caller; /* thread that is in the call from Python; 0: none */
    bool device;              /* its data is on a GPU */
    bool counts;              /* counted in events.in_flight */
    bool coalesced;           /* goes to the GPU with others, when all have been called */
    bool by_wait;             /* no event of torch's tells its end: behind its wait it is over */
    _Atomic int marks;        /* enum pb_comm_marks */
    void *from, *to;          /* CUDA events; they stay with the entry for ever, once made */
    struct _object *work;     /* compared only: handle in Python */
    struct _object *weak;     /* weak reference to that handle */
    uint32_t ring_number;     /* generation of the ring that the row's names are for */
    int64_t before;           /* torch's count of operations before it; -1: not known */
    struct pb_comm_watch *watch; /* watch of its group, or NULL */
    uint64_t began_ns;
    union pb_cell row[PB_COMM_COLUMNS];
};

struct pb_comm_ops {
    _Atomic size_t used; /* entries that were ever used; they are the first ones */
    _Atomic int calls;   /* operations in a call from Python */
    int handles;         /* GIL: operations whose handle in Python is known */
    struct pb_comm_op list[PB_COMM_OPS];
};

/* Time with any operation under way: since when (in units of 64 ns) and how many, in one word. */
struct pb_comm_time {
    _Atomic uint64_t since_and_count;
    _Atomic uint64_t sum_ns; /* time before that, not yet asked for */
};

/* Dictionary number of a text in the ring; the collector may have left at any time. */
uint32_t pb_comm_name(struct pb_comm *c, const char *s, size_t len);

/* A new entry with one keeper, or NULL. */
struct pb_comm_op *pb_comm_op_claim(struct pb_comm *c);
/* Writes the first row. */
void pb_comm_op_begin(struct pb_comm *c, struct pb_comm_op *op, uint32_t state);
/* Writes the last row, once. Latency by our clock; now 0: NULL. */
void pb_comm_op_end(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now);
/* Writes the last row, once, with a latency that was measured, or the NULL of a REAL. */
void pb_comm_op_end_ms(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, double ms);
/* Writes another last row, which corrects the state. */
void pb_comm_op_amend(struct pb_comm *c, struct pb_comm_op *op, uint32_t state, uint64_t now);
/* One keeper more; false when the entry is free, and may be used for another operation. */
bool pb_comm_op_retain(struct pb_comm_op *op);
/* One keeper less. */
void pb_comm_op_release(struct pb_comm_op *op);

/* Between these two an operation is under way. */
void pb_comm_time_begin(struct pb_comm *c, uint64_t now);
void pb_comm_time_end(struct pb_comm *c, uint64_t now);

/*
 * Time with operations under way since the last call of this, up to now; what goes on is counted up
 * to now and the rest the next time. So each step has what was in its own window.
 */
uint64_t pb_comm_window_ns(struct pb_self *self, uint64_t now);
/* The same without ending the window: for the difference between two times within it. */
uint64_t pb_comm_elapsed_ns(struct pb_self *self, uint64_t now);
/* Time on the GPU of operations whose end was seen since the last call of this. */
uint64_t pb_comm_gpu_window_ns(struct pb_self *self);

#endif
