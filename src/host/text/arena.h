/*
 * arena.h - memory that is freed all at once.
 *
 * Owns: every block handed out, until pb_arena_finish.
 * Threads: one.
 * Fails: never returns NULL; the process ends when memory is exhausted (the
 * outside may, the agent must not use this).
 * Not here: anything that outlives one request.
 */
#ifndef PB_HOST_TEXT_ARENA_H
#define PB_HOST_TEXT_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct pb_arena_block;

struct pb_arena {
    struct pb_arena_block *head;
    size_t bytes; /* taken from the system so far */
};

#define PB_ARENA_INIT {0}

void pb_arena_finish(struct pb_arena *a);
void *pb_arena_alloc(struct pb_arena *a, size_t size); /* zeroed, 16-byte aligned */
void *pb_arena_grow(struct pb_arena *a, const void *old, size_t old_size, size_t new_size);
char *pb_arena_strndup(struct pb_arena *a, const char *s, size_t n);
char *pb_arena_strdup(struct pb_arena *a, const char *s);
char *pb_arena_printf(struct pb_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define PB_NEW(a, type) ((type *)pb_arena_alloc((a), sizeof(type)))
#define PB_NEW_N(a, type, n) ((type *)pb_arena_alloc((a), sizeof(type) * (n)))

#endif
