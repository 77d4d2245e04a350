/*
 * trace.h - rows of python.torch_trace.
 *
 * Owns: the ring, and rows that wait for their time on the GPU.
 * Threads: GIL held.
 * Fails: a time that does not come within 30 seconds is NULL.
 * Not here: who makes rows (calls.h, backward.h, optimizers.h, grad.h).
 *
 * Rows are in the order of step and seq, which are given here; the row of a module follows those of
 * the modules that it called. A row whose time on the GPU is not known yet holds back all rows
 * behind it.
 */
#ifndef PB_AGENT_TORCH_TRACE_H
#define PB_AGENT_TORCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb_torch;
struct pb_torch_module;
struct pb_torch_thread;
struct pb_ring;

enum { PB_TORCH_WAITING = 1 << 12 };

struct pb_torch_row {
    uint32_t name, type, stage, operation; /* dictionary */
    int64_t step, seq;                     /* set when the row is appended */
    uint64_t began_ns, ended_ns;
    int64_t bytes, delta; /* bytes in tensors at the end and their change; or PB_TORCH_UNKNOWN */
    double gpu_ms, self_ms;
    uint32_t root, phase; /* dictionary */
    int64_t tid;
    struct pb_torch_thread *thread; /* thread whose numbers count; NULL: the step's */
};

/* A row that waits for its own time on the GPU, or for a row before it. */
struct pb_torch_waiting_row {
    struct pb_torch_row row;
    void *from, *to; /* CUDA events; NULL: nothing to wait for */
    uint32_t *users; /* count of waiting rows of one owner, or NULL */
};

struct pb_torch_trace {
    struct pb_ring *ring; /* NULL while the collector is off */
    uint32_t forward, backward, optimizer; /* dictionary: stages */
    uint32_t backward_operation;           /* dictionary: operation of a whole backward pass */
    uint32_t train, eval, data;            /* dictionary: phases */
    unsigned first, count;                 /* circle of waiting rows */
    uint32_t spans;                        /* waiting rows with a GPU span */
    void *last_event;                      /* event recorded last */
    struct pb_torch_waiting_row waiting[PB_TORCH_WAITING];
};

/* Gets the ring and its names; false: there is no room for it. */
bool pb_torch_trace_enter(struct pb_torch *t);
/* Dictionary number of a text, or PB_NULL_NAME. */
uint32_t pb_torch_name(struct pb_torch *t, const char *s, size_t len);
/* A name of this ring in another ring. */
uint32_t pb_torch_carry_name(struct pb_torch *t, struct pb_ring *ring, uint32_t name);

void pb_torch_trace_append(struct pb_torch *t, struct pb_torch_row *r);
/* A row whose time on the GPU is that between two events. *users counts those that wait. */
void pb_torch_trace_append_timed(struct pb_torch *t, struct pb_torch_row *r, void *from, void *to,
                                 uint32_t *users);
/* The same for a span of t->cuda that ends now; -1: none. */
void pb_torch_trace_append_span(struct pb_torch *t, struct pb_torch_row *r, int span);
/* Begins a span in a step in which the GPU is timed; -1: none. */
int pb_torch_span_begin(struct pb_torch *t);

/* What is no call of a module: a backward pass, a step of an optimizer. */
struct pb_torch_stage {
    uint32_t name, type, label; /* dictionary; label: the outermost module or the optimizer */
    uint32_t stage, operation;  /* dictionary */
    uint64_t began_ns, ended_ns;
    uint64_t inside_ns;         /* time of modules inside; UINT64_MAX: not known */
    int64_t bytes_before;
    int span;
};

void pb_torch_trace_stage(struct pb_torch *t, const struct pb_torch_stage *s);
/* Writes rows whose time has come; all: whether it has come or not. */
void pb_torch_trace_poll(struct pb_torch *t, bool all);

#endif
