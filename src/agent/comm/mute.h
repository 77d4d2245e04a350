/*
 * mute.h - operations that Python waits for at once need no event of torch's.
 *
 * Owns: nothing.
 * Threads: GIL held, no exception pending.
 * Fails: false, and the events come.
 * Not here: the events (events.h).
 *
 * Such an operation is over when the wait is, on the CPU or on the stream. An event costs more than
 * everything else here, as torch carries the state of the calling thread to its own for it, or has
 * another stream wait. So the calling thread has no events during such a call, unless somebody else
 * listens to them.
 */
#ifndef PB_AGENT_COMM_MUTE_H
#define PB_AGENT_COMM_MUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/comm/kinds.h"

struct pb_comm;
struct pb_comm_op;
struct _object;

struct pb_comm_mute {
    bool searched;
    void *get;             /* at::getStepCallbacks; NULL: not to be used */
    void (*enable)(bool);  /* at::enableRecordFunction */
    uint8_t unsaid[PB_COMM_KINDS]; /* calls in a row without an option asyncOp */
};

/* True: this thread has no events until pb_comm_mute_end. */
bool pb_comm_mute_begin(struct pb_comm *c, size_t kind, struct _object *args,
                        struct _object *kwargs, struct pb_comm_op *op);
void pb_comm_mute_end(struct pb_comm *c);

#endif
