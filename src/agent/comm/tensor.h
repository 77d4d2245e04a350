/*
 * tensor.h - tensors of operations: how many bytes of what type, on what device.
 *
 * Owns: where this torch keeps that.
 * Threads: learning with the GIL; the rest as said at each function.
 * Fails: what is not known stays NULL in the row.
 * Not here: whose the tensors are (args.c, events.h).
 *
 * Torch offers no function for the tensors of an event, and asking Python for those that it holds
 * would take too long. So where torch keeps this is found by trials: operations on tensors of known
 * size and type are done, and whatever does not agree each time is out. What is left has to be
 * exactly one place each, or it stays unknown. Reads go through the kernel, but for what the caller
 * holds.
 */
#ifndef PB_AGENT_COMM_TENSOR_H
#define PB_AGENT_COMM_TENSOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/writer.h"

struct pb_comm;
struct _object;

enum { PB_COMM_EVENT_WORDS = 128, PB_COMM_TYPES = 32 };

/* Positions are -1 where they are not known. */
struct pb_comm_tensor {
    _Atomic int inputs;        /* word of an event with its list of inputs, then their number */
    _Atomic int count, dtype;  /* word and half word of a tensor: elements, type */
    int device;                /* byte of a tensor: kind of device */
    int object;                /* word of Python's object with the tensor's address */
    struct _object *types[2];  /* torch.Tensor, Parameter: classes of such objects */
    uint32_t tag;              /* tag of a value that is a tensor */
    _Atomic uintptr_t thread;  /* thread that makes a trial; 0: none */
    uintptr_t tensor;          /* tensor of that trial */
    bool words[PB_COMM_EVENT_WORDS]; /* words of an event that agreed so far */
    int trials;                /* trials made; -1: all are done */
    _Atomic uint32_t names[PB_COMM_TYPES]; /* dictionary: element types */
};

/* GIL held: finds the positions, once; the names for this ring each time. */
void pb_comm_tensor_learn(struct pb_comm *c);
/* GIL held: of a tensor that the caller holds. False: its class is not known. */
bool pb_comm_tensor_held(const struct pb_comm *c, struct _object *o, int64_t *ret_bytes,
                         uint32_t *ret_dtype, bool *ret_device);
/* Any thread: of an event's tensors, into the row; or NULL there. */
void pb_comm_tensor_measure(struct pb_comm *c, const void *record, union pb_cell *row);

#endif
