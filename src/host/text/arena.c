#include "host/text/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

#define BLOCK_SIZE ((size_t)64 << 10)
#define ALIGNMENT ((size_t)16)

struct pb_arena_block {
    struct pb_arena_block *next;
    size_t used, cap;
    size_t last; /* where the newest piece starts, so that it can grow in place */
    _Alignas(16) unsigned char data[];
};

void pb_arena_finish(struct pb_arena *a)
{
    struct pb_arena_block *next;

    if (!a)
        return;
    for (struct pb_arena_block *b = a->head; b; b = next) {
        next = b->next;
        free(b);
    }
    a->head = NULL;
    a->bytes = 0;
}

static size_t round_up(size_t n)
{
    /* A size that cannot be served stays one; it must not wrap to a small one. */
    return n > SIZE_MAX - ALIGNMENT ? SIZE_MAX / 2 : (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static struct pb_arena_block *block_create(size_t size)
{
    size_t cap = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;
    struct pb_arena_block *b;

    if (cap > SIZE_MAX / 2 - sizeof *b)
        cap = SIZE_MAX / 2 - sizeof *b;
    b = pb_alloc_resize(NULL, sizeof *b + cap);
    b->used = b->last = 0;
    b->cap = cap;
    return b;
}

void *pb_arena_alloc(struct pb_arena *a, size_t size)
{
    struct pb_arena_block *b = a->head;
    void *p;

    size = round_up(size ? size : 1);
    if (!b || b->cap - b->used < size) {
        struct pb_arena_block *fresh = block_create(size);

        a->bytes += fresh->cap;
        /* A big piece gets a block of its own behind the one still being filled. */
        if (b && fresh->cap == size) {
            fresh->next = b->next;
            b->next = fresh;
        } else {
            fresh->next = b;
            a->head = fresh;
        }
        b = fresh;
    }
    p = b->data + b->used;
    b->last = b->used;
    b->used += size;
    memset(p, 0, size);
    return p;
}

void *pb_arena_grow(struct pb_arena *a, const void *old, size_t old_size, size_t new_size)
{
    struct pb_arena_block *b = a->head;
    size_t want = round_up(new_size ? new_size : 1);
    void *p;

    if (old && b && old == b->data + b->last && want <= b->cap - b->last) {
        if (b->last + want > b->used) {
            memset(b->data + b->used, 0, b->last + want - b->used);
            b->used = b->last + want;
        }
        if (new_size > old_size)
            memset(b->data + b->last + old_size, 0, new_size - old_size);
        return b->data + b->last;
    }
    p = pb_arena_alloc(a, new_size);
    if (old)
        memcpy(p, old, old_size < new_size ? old_size : new_size);
    return p;
}

char *pb_arena_strndup(struct pb_arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *p = pb_arena_alloc(a, len + 1);

    memcpy(p, s, len);
    return p;
}

char *pb_arena_strdup(struct pb_arena *a, const char *s)
{
    return pb_arena_strndup(a, s, strlen(s));
}

char *pb_arena_printf(struct pb_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return pb_arena_strdup(a, "");
    p = pb_arena_alloc(a, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
