/*
 * gpu.h - values and times from a GPU without ever waiting for it.
 *
 * Owns: events and a little pinned memory, made at first use and kept for ever.
 * Threads: GIL held; it is released while something is put on a stream.
 * Fails: silently: a value stays unknown. Where no CUDA context is current nothing is done.
 * Not here: what the allocator holds (cuda.h).
 *
 * The driver's own functions are called, those of the library that is loaded: unlike the runtime's
 * they leave no "last error" behind for the program to stumble over. While the stream is being
 * captured into a graph nothing is put on it.
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_CUDA_H
#define PB_AGENT_COLLECTORS_NATIVE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/collectors/native/driver.h"
#include "agent/py/api.h"

enum {
    PB_CUDA_SLOTS = 136,  /* values on their way at once */
    PB_CUDA_SPANS = 1024, /* timed at once */
};

/* How a value is stored. */
enum pb_cuda_kind { PB_CUDA_F32, PB_CUDA_F64, PB_CUDA_F16, PB_CUDA_BF16, PB_CUDA_KINDS };

enum pb_cuda_state { PB_CUDA_NONE, PB_CUDA_KNOWN, PB_CUDA_COMING };

/* A number; 0 is one that nobody has told. */
struct pb_cuda_value {
    enum pb_cuda_state state;
    enum pb_cuda_kind kind;
    int slot; /* COMING */
    double v; /* KNOWN */
};

struct pb_cuda_slot {
    bool taken;
    void *event;
};

struct pb_cuda_span {
    void *from, *to; /* events */
    bool ended;
};

struct pb_cuda {
    int state;  /* 0: no thread that asked had a context; 1: there; -1: will not work */
    bool found; /* the driver is loaded */
    uint64_t again_ns;
    void *context;
    struct pb_driver driver;
    struct _object *get_device, *get_stream;
    unsigned char *pinned; /* 8 bytes for each slot */
    struct pb_cuda_slot slots[PB_CUDA_SLOTS];
    struct pb_cuda_span spans[PB_CUDA_SPANS];
    unsigned nspans; /* in use */
    uint32_t left;   /* times that nothing was waited for any more */
};

/* Bytes of a value as a number. */
double pb_cuda_decode(const unsigned char *bytes, enum pb_cuda_kind kind);

/* Is it there, with a context that is ours? Cheap. */
bool pb_cuda_ready(struct pb_cuda *c, const struct pb_py *py, uint64_t now);
/* Has the copy of the value put into its stream; it is COMING then, or stays NONE. */
void pb_cuda_fetch(struct pb_cuda *c, const struct pb_py *py, struct pb_cuda_value *v,
                   uint64_t address, enum pb_cuda_kind kind);
/* No value is waited for any more. */
void pb_cuda_leave(struct pb_cuda *c);
/* True when the value is KNOWN or NONE by now. Drop: it is not waited for any more. */
bool pb_cuda_arrived(struct pb_cuda *c, struct pb_cuda_value *v, bool drop);

/* The stream of this thread; false when it is being captured. */
bool pb_cuda_stream(struct pb_cuda *c, const struct pb_py *py, void **ret);
bool pb_cuda_is_done(struct pb_cuda *c, void *event);

/* A number, or -1 when there is no more room or nothing may be put on the stream. */
int pb_cuda_span_begin(struct pb_cuda *c, const struct pb_py *py);
void pb_cuda_span_end(struct pb_cuda *c, const struct pb_py *py, int span);
void pb_cuda_spans_clear(struct pb_cuda *c);
/* In a forked child: CUDA does not work there any more. Async-safe. */
void pb_cuda_forked(struct pb_cuda *c);

#endif
