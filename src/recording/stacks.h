/*
 * stacks.h - distinct frames, and distinct stacks as a prefix tree.
 *
 * Owns: its tables and copies of all names.
 * Threads: one.
 * Fails: never; a table that is full takes no more, the stack then ends at the last node that is
 * in it, and `dropped` counts such stacks.
 * Not here: time (recording.h).
 *
 * A stack is the number of its innermost node; node 0 is the root and has no frame. Parents have
 * lower numbers than their children, so that one pass from the last to the first node sums up.
 * A node's id is a hash of its frames down to the root: the same stack has the same id in every
 * process, on every machine and for ever, so that rows written on different days can be joined.
 */
#ifndef PB_RECORDING_STACKS_H
#define PB_RECORDING_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/text/arena.h"
#include "stack/snapshot.h"

struct pb_prof_frame {
    const char *func;
    const char *file; /* source, or the mapped file of a native function; "" when unknown */
    int lineno;       /* 0: unknown, or grouped by function */
    bool native;
};

struct pb_prof_node {
    uint32_t parent, frame;
    uint64_t id; /* never 0 */
};

/* Open addressing over the numbers of a table's entries, shifted by one; 0 is free. */
struct pb_prof_index {
    uint32_t *slot;
    size_t cap; /* a power of two */
};

struct pb_stacks {
    struct pb_arena arena;
    struct pb_prof_frame *frames;
    size_t nframes, frames_cap;
    struct pb_prof_node *nodes; /* nodes[0] is the root */
    size_t nnodes, nodes_cap;
    struct pb_prof_index by_frame, by_node;
    uint64_t dropped;
};

enum { PB_STACKS_MAX = 4 << 20 }; /* frames, and nodes */

void pb_stacks_init(struct pb_stacks *s);
void pb_stacks_finish(struct pb_stacks *s);

/* The node of a frame below a parent, made when it is new. */
uint32_t pb_stacks_child(struct pb_stacks *s, uint32_t parent, const struct pb_prof_frame *frame);
/* The stack of a thread, innermost frame first, below a root. */
uint32_t pb_stacks_add(struct pb_stacks *s, uint32_t root, const struct pb_thread *thread,
                       bool by_function);

/* The end of a path that people read: from the package on, or the file's own name. */
const char *pb_stacks_short_file(const char *file);

#endif
