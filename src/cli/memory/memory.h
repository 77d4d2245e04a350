/*
 * memory.h - what `probing TARGET memory` found, and how it is printed.
 *
 * Owns: nothing; texts live in the command's arena.
 * Threads: one.
 * Fails: never.
 * Not here: asking (memory.c).
 */
#ifndef PB_CLI_MEMORY_MEMORY_H
#define PB_CLI_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "display/print.h"

enum { PB_MEMORY_POINTS = 20, PB_MEMORY_KINDS = 24, PB_MEMORY_PROCESSES = 64 };

/* Amounts in MB; NaN for unknown. */
struct pb_memory_kind {
    const char *name;
    double now, peak;
    double trend, error; /* MB a minute, and the standard error of that */
    double points[PB_MEMORY_POINTS];
};

struct pb_memory {
    pid_t pid;
    bool alive;
    const char *command; /* or NULL */
    double first, last;  /* bounds of the window, seconds since 1970; 0 when there is none */
    struct pb_memory_kind kinds[PB_MEMORY_KINDS];
    size_t nkinds;
};

struct pb_memories {
    struct pb_memory v[PB_MEMORY_PROCESSES];
    size_t n;
};

void pb_memory_text(struct pb_print *out, const struct pb_memories *m, struct pb_arena *a);
/* One object, or an array of them when several processes were meant. */
void pb_memory_json(struct pb_buf *b, const struct pb_memories *m);

#endif
