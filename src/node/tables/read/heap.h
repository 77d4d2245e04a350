/*
 * heap.h - Python objects of the processes in scope, for live tables.
 *
 * Owns: nothing.
 * Threads: any; each call reads anew.
 * Fails: too many processes at once; one that cannot be read is left out.
 * Not here: reading (heap/heap.h).
 */
#ifndef PB_NODE_TABLES_READ_HEAP_H
#define PB_NODE_TABLES_READ_HEAP_H

#include "heap/heap.h"
#include "node/tables/read/common.h"

/* Calls add for each process in scope; containers: how many of the largest are wanted. */
int pb_live_heap(struct pb_node *n, const struct pb_scope *scope, const char *table,
                 size_t containers, struct pb_rows *rows,
                 void (*add)(struct pb_node *, const struct pb_live_process *,
                             const struct pb_heap *, struct pb_rows *),
                 struct pb_err *err);

#endif
