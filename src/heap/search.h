/*
 * search.h - one search for holders on its way; for reach.c and reach_text.c.
 *
 * Owns: nodes, paths and what was seen, until pb_heap_reach is done.
 * Threads: one.
 * Fails: never.
 * Not here: what a caller needs (reach.h).
 */
#ifndef PB_HEAP_SEARCH_H
#define PB_HEAP_SEARCH_H

#include "heap/reach.h"

#define PB_HEAP_DEPTH_MAX 12 /* steps that a path tells apart */
#define PB_HEAP_NO_NODE UINT32_MAX

struct pb_heap_node {
    uint64_t addr, name; /* name: of the reference that led here; a number for an item */
    uint32_t parent, path;
    uint8_t label;
};

/* A kind of way: the path before, and one more step. */
struct pb_heap_way {
    uint32_t parent;
    uint8_t label, depth;
    uint64_t name; /* attribute: its name; field: the type that has it */
    uint64_t count, bytes;
};

struct pb_heap_search {
    struct pb_heap_look *h;
    const struct pb_heap_root *roots;
    size_t nroots;
    struct pb_heap_node *nodes;
    size_t n, cap, nodes_max;
    struct pb_heap_way *paths;
    size_t npaths, paths_cap;
    uint32_t *path_slots; /* open addressing, 1 + index */
    size_t slots_cap;
    uint64_t *seen_small; /* bit for every eight bytes of the allocator's memory */
    struct pb_heap_set seen;
    uint32_t at; /* the node that is being expanded */
    const struct pb_heap_kind *at_kind;
    const char *type; /* type whose paths are wanted, or NULL */
    uint64_t *wanted; /* containers that are looked for, 0 once found */
    uint32_t *found;  /* nodes of the containers in `wanted` */
    size_t nwanted, left;
};

/* reach_text.c: the way to an object, "app.cache['x'][3]", and a kind of ways, "app.cache[…]". */
const char *pb_heap_node_text(struct pb_heap_search *s, uint32_t node);
const char *pb_heap_way_text(struct pb_heap_search *s, uint32_t way);

#endif
