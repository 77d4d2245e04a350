#include "stack/copy.h"

/* How far below a stack its guard may reach. */
#define GUARD_MAX (4u << 20)
/* The part below the stack pointer that a leaf function may use (x86_64). */
#define RED_ZONE 128

void pb_copy_stack(const struct pb_capture_opts *o, size_t max,
                   const struct pb_capture_buffers *buffers, struct pb_arena *a,
                   struct pb_capture *c)
{
    uint64_t from = c->regs.sp - RED_ZONE;
    const struct pb_map *map = pb_maps_find_stack(o->maps, c->regs.sp);
    uint8_t *bytes;
    size_t len;

    if (!map || !map->read) {
        c->native_note = "its stack is not mapped";
        return;
    }
    if (from < map->start && c->regs.sp >= map->start)
        from = map->start;
    len = map->end - from < max ? map->end - from : max;
    bytes = buffers && len <= buffers->stack_len ? buffers->stack : pb_arena_alloc(a, len);
    if (!pb_mem_get(o->mem, from, bytes, len))
        len = pb_mem_get_start(o->mem, from, bytes, len);
    if (!len) {
        c->native_note = "its stack cannot be read";
        return;
    }
    c->stack = (struct pb_stack_copy){from, len, bytes};
    c->has_regs = true;
}

void pb_copy_overflown(const struct pb_capture_opts *o, struct pb_arena *a, struct pb_capture *c)
{
    const struct pb_map *map = NULL;
    uint8_t *bytes;
    size_t len;

    for (size_t i = 0; i < o->maps->n && !map; i++)
        if (o->maps->v[i].end > c->regs.sp && o->maps->v[i].read)
            map = &o->maps->v[i];
    if (!map || map->start < c->regs.sp || map->start - c->regs.sp > GUARD_MAX)
        return;
    len = map->end - map->start < PB_STACK_MAX ? map->end - map->start : PB_STACK_MAX;
    bytes = pb_arena_alloc(a, len);
    len = pb_mem_get_start(o->mem, map->start, bytes, len);
    if (!len)
        return;
    c->stack = (struct pb_stack_copy){map->start, len, bytes};
    c->has_regs = true;
    c->native_note = NULL;
}
