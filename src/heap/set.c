/* set.c - a set of addresses. */
#include <stdlib.h>

#include "heap/internal.h"
#include "host/text/alloc.h"

#define FIRST 4096

static size_t slot_of(const struct pb_heap_set *s, uint64_t addr)
{
    size_t i = (size_t)((addr >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (s->cap - 1);

    while (s->v[i] && s->v[i] != addr)
        i = (i + 1) & (s->cap - 1);
    return i;
}

static void grow(struct pb_heap_set *s)
{
    struct pb_heap_set old = *s;

    s->cap = old.cap ? old.cap * 2 : FIRST;
    s->v = pb_alloc_resize(NULL, s->cap * sizeof *s->v);
    memset(s->v, 0, s->cap * sizeof *s->v);
    for (size_t i = 0; i < old.cap; i++)
        if (old.v[i])
            s->v[slot_of(s, old.v[i])] = old.v[i];
    free(old.v);
}

bool pb_heap_set_add(struct pb_heap_set *s, uint64_t addr)
{
    size_t i;

    if (s->n * 2 >= s->cap)
        grow(s);
    i = slot_of(s, addr);
    if (s->v[i])
        return false;
    s->v[i] = addr;
    s->n++;
    return true;
}

bool pb_heap_set_has(const struct pb_heap_set *s, uint64_t addr)
{
    return s->cap && s->v[slot_of(s, addr)];
}

void pb_heap_set_finish(struct pb_heap_set *s)
{
    free(s->v);
}
