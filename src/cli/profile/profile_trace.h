/*
 * profile_trace.h - operations of a trace in Chrome's format, added up while it arrives.
 *
 * Owns: one entry for each event and each different operation.
 * Threads: one.
 * Fails: an event that makes no sense is passed over; bounds (PB_TRACE_EVENTS, …) are counted.
 * Not here: where the trace comes from and goes to (profile.c).
 *
 * The trace is what torch's profiler writes. Its bytes are a target's: nothing in them is trusted.
 */
#ifndef PB_CLI_PROFILE_PROFILE_TRACE_H
#define PB_CLI_PROFILE_PROFILE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/text/arena.h"

enum {
    PB_TRACE_EVENTS = 4 << 20, /* limit of events; later ones are passed over */
    PB_TRACE_OPS = 1 << 16,    /* different operations */
};

struct pb_trace;

/* Times are in ms. */
struct pb_trace_op {
    const char *name;
    const char *shapes; /* NULL: not told apart by them */
    int64_t calls;
    double self_cpu, cpu, self_device, device;
};

struct pb_trace *pb_trace_create(bool shapes);
void pb_trace_destroy(struct pb_trace *t);
/* The next bytes of the trace; pieces may end anywhere. */
void pb_trace_add(struct pb_trace *t, const char *data, size_t len);
size_t pb_trace_events(const struct pb_trace *t);
/* All operations by their own time, the largest first. They live as long as the trace. */
const struct pb_trace_op *pb_trace_ops(struct pb_trace *t, size_t *ret_n);

#endif
