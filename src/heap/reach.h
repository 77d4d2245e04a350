/*
 * reach.h - references between objects, and who holds what.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: one.
 * Fails: never; what is not reached has no holder.
 * Not here: counting (heap.c).
 */
#ifndef PB_HEAP_REACH_H
#define PB_HEAP_REACH_H

#include "heap/internal.h"

/* A variable from which objects are reached. */
struct pb_heap_root {
    uint64_t addr;
    const char *text; /* "app", "step() at train.py:12: batch" */
    bool is_local;    /* a variable of a running function */
};

/* roots.c: modules first, then local variables of every thread's frames. */
size_t pb_heap_roots(struct pb_heap_look *h, const struct pb_target_view *view,
                     struct pb_heap_root **ret);
/* own.c: adds containers of the program's own variables to those that were found. */
void pb_heap_add_own(struct pb_heap_look *h, const struct pb_heap_root *roots, size_t n);
/* Finds the holders of the containers, and the paths to the type that was asked for. */
void pb_heap_reach(struct pb_heap_look *h, const struct pb_heap_root *roots, size_t nroots);

#endif
