/*
 * heap_show.h - Python objects by type as text and as JSON.
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: never.
 * Not here: reading them (heap/heap.h), when to look (memory_heap.c).
 */
#ifndef PB_CLI_MEMORY_HEAP_SHOW_H
#define PB_CLI_MEMORY_HEAP_SHOW_H

#include "heap/heap.h"
#include "display/print.h"

struct pb_heap_shown {
    pid_t pid;           /* 0: a core file that does not say */
    bool core;           /* read from a core file */
    const char *version; /* version of Python */
    const char *command; /* or NULL */
    const char *type;    /* the type whose holders were asked for, or NULL */
    size_t types;        /* lines of each table */
};

/* before: an earlier look to tell growth by, or NULL. */
void pb_heap_text(struct pb_print *out, const struct pb_heap_shown *o, const struct pb_heap *h,
                  const struct pb_heap *before, struct pb_arena *a);
void pb_heap_json(struct pb_buf *out, const struct pb_heap_shown *o, const struct pb_heap *h,
                  const struct pb_heap *before, struct pb_arena *a);

#endif
