/*
 * events.h - operations that torch begins by itself, as DistributedDataParallel does in C++.
 *
 * Owns: our callback in torch's list, and the contexts that torch keeps for us.
 * Threads: enter, leave and poll have the GIL. Torch calls us from any thread, without the GIL, and
 * may call the end of an event long after the callback was removed: what is needed then stays.
 * Fails: err says why what torch sends by itself is not seen.
 * Not here: the callbacks as such (native/record.h), operations that Python begins (calls.c).
 *
 * Torch's own profiling events say when an operation begins and ends, and have its tensors. They do
 * not name the group: that is the one whose count has moved (groups.h), or the only one there is.
 */
#ifndef PB_AGENT_COMM_EVENTS_H
#define PB_AGENT_COMM_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/record.h"
#include "base/err.h"

struct pb_comm;
struct pb_comm_op;

enum { PB_COMM_CONTEXTS = 8192 };

/* at::ObserverContext: handed to torch with an event, and kept by it until the event is deleted. */
struct pb_comm_context {
    const void *functions;         /* the C++ object's table of virtual functions; first */
    struct pb_comm_op *_Atomic op; /* NULL: torch has said that it is over */
    _Atomic bool taken;
};

struct pb_comm_events {
    struct pb_record record;
    uint64_t callback;     /* number of ours in torch */
    bool installed;
    _Atomic int tested;    /* calls of the self-test */
    _Atomic bool only;     /* this process has one group, which is meant: the next three */
    _Atomic uint32_t group;     /* dictionary: name of the group */
    _Atomic int64_t size, seq;  /* ranks of the group; number of its last operation */
    int64_t behind;        /* torch's count minus seq, at the last poll */
    _Atomic int in_flight; /* operations that torch has begun and not ended */
    _Atomic bool counts_first; /* torch counts an operation before it tells of it */
    _Atomic uint64_t count;    /* events so far */
    _Atomic int64_t total;     /* sum of all watched counts at the last event */
    _Atomic unsigned next_context;
    struct pb_comm_context contexts[PB_COMM_CONTEXTS];
};

int pb_comm_events_enter(struct pb_comm *c, struct pb_err *err);
void pb_comm_events_leave(struct pb_comm *c);
/* Which group can be meant, and how far it has come. */
void pb_comm_events_poll(struct pb_comm *c);
/* Whether a callback of torch's, by its two functions, is ours. */
bool pb_comm_events_is_ours(uintptr_t start, uintptr_t end);

/* match.c: any thread. */
/* The operation that an event is about, with a keeper; NULL: none of its own. */
struct pb_comm_op *pb_comm_match(struct pb_comm *c, const char *name, bool device,
                                 const void *record);
/* GIL held: learns whether torch counts an operation before it tells of it. */
void pb_comm_match_poll(struct pb_comm *c);

#endif
