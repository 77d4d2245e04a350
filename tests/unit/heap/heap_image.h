/*
 * heap_image.h - for tests and fuzzers: a small heap of a given version in an image of memory.
 *
 * Owns: nothing; the bytes are the caller's.
 * Threads: one.
 * Fails: never, in an image of HEAP_IMAGE bytes.
 *
 * One interpreter with pymalloc of one small arena, a list of the collector, a module "app" in
 * sys.modules whose variable `cache` is a list of instances, and a large str outside.
 */
#ifndef PB_TEST_HEAP_IMAGE_H
#define PB_TEST_HEAP_IMAGE_H

#include "../stack/python/image.h"
#include "heap/heap.h"

#define HEAP_IMAGE ((size_t)160 << 10)
#define HEAP_ARENA 65536 /* bytes of the arena; CPython's are larger */
#define HEAP_POOL 4096
#define HEAP_ARENA_AT (IMAGE_BASE + 65536) /* where it lies */
#define HEAP_NODES 20

struct heap_image {
    struct image img;
    struct pb_py_layout py;
    struct pb_py_location loc;
    struct pb_map map;
    struct pb_maps maps;
    struct pb_target_view view;
    uint64_t pool, block; /* next pool of the arena; next block of the pool */
    unsigned size;        /* of a block in it */
    uint64_t gc_last;     /* the last one of the collector's list */
};

static inline void heap_close_pool(struct heap_image *h)
{
    uint32_t used = (uint32_t)(h->block - h->pool), last = HEAP_POOL - h->size, count;

    if (!h->size)
        return;
    count = (used - 48) / h->size;
    image_put(&h->img, h->pool, &count, 4);
    image_put(&h->img, h->pool + 40, &used, 4);
    image_put(&h->img, h->pool + 44, &last, 4);
    h->pool += HEAP_POOL;
}

static inline void heap_open_pool(struct heap_image *h, unsigned size)
{
    heap_close_pool(h);
    h->size = size;
    h->block = h->pool + 48;
}

/* A block of the pool with an object in it, behind what its type keeps in front. */
static inline uint64_t heap_object(struct heap_image *h, uint64_t type, unsigned prefix)
{
    uint64_t at = h->block, addr = at + prefix;

    h->block += h->size;
    image_word(&h->img, addr, 2); /* references */
    image_word(&h->img, addr + (uint64_t)h->py.ob_type, type);
    if (prefix == (unsigned)h->py.gc_head && prefix) {
        image_word(&h->img, h->gc_last, at);
        image_word(&h->img, at + 8, h->gc_last);
        h->gc_last = at;
    }
    return addr;
}

static inline uint64_t heap_type(struct heap_image *h, const char *name, uint64_t flags,
                                 uint64_t basicsize)
{
    uint64_t addr = image_type(&h->img, name, flags);

    image_word(&h->img, addr, 1);
    image_word(&h->img, addr + (uint64_t)h->py.type_basicsize, basicsize);
    return addr;
}

static inline uint64_t heap_str(struct heap_image *h, uint64_t type, const char *text)
{
    uint64_t addr = image_str(&h->img, type, text);

    image_word(&h->img, addr, 1);
    return addr;
}

/* A dict with one entry, in a block of the open pool. */
static inline uint64_t heap_dict(struct heap_image *h, uint64_t type, uint64_t key, uint64_t value)
{
    uint64_t addr = heap_object(h, type, (unsigned)h->py.gc_head);
    uint64_t keys = image_keys(&h->img, &key, &value, 1);

    image_word(&h->img, keys, 1);
    image_word(&h->img, addr + (uint64_t)h->py.dict_used, 1);
    image_word(&h->img, addr + (uint64_t)h->py.dict_keys, keys);
    image_word(&h->img, addr + (uint64_t)h->py.dict_values, 0);
    return addr;
}

static inline void heap_fill(struct heap_image *h, uint64_t interp)
{
    const uint64_t gc = 1u << 14;
    unsigned head = (unsigned)h->py.ob_head, front = (unsigned)h->py.gc_head;
    uint64_t t_str = heap_type(h, "str", PB_TP_STR, 80), node, list, items, dict, module;
    uint64_t t_float = heap_type(h, "float", 0, head + 8);
    uint64_t t_list = heap_type(h, "list", PB_TP_LIST | gc, head + 24);
    uint64_t t_dict = heap_type(h, "dict", PB_TP_DICT | gc, (uint64_t)h->py.dict_values + 8);
    uint64_t t_module = heap_type(h, "module", gc, head + 40);
    uint64_t t_node = heap_type(h, "Node", gc, head + 16);
    uint64_t array = image_room(&h->img, HEAP_NODES * 8), large = image_room(&h->img, 1200);

    heap_open_pool(h, 32);
    for (int i = 0; i < 2 * HEAP_NODES; i++)
        heap_object(h, t_float, 0);
    heap_open_pool(h, 96);
    for (int i = 0; i < HEAP_NODES; i++) {
        node = heap_object(h, t_node, front);
        image_word(&h->img, array + (uint64_t)i * 8, node);
        image_word(&h->img, node + head, i == 0 ? large : 0);
    }
    image_word(&h->img, large, 1);
    image_word(&h->img, large + (uint64_t)h->py.ob_type, t_str);
    image_word(&h->img, large + (uint64_t)h->py.str_length, 1000);
    image_word(&h->img, large + (uint64_t)h->py.str_state, (uint64_t)(1 | 8 | 16) << 2);
    heap_open_pool(h, 112);
    list = heap_object(h, t_list, front);
    items = HEAP_NODES;
    image_word(&h->img, list + (uint64_t)h->py.ob_size, items);
    image_word(&h->img, list + (uint64_t)h->py.list_items, array);
    image_word(&h->img, list + (uint64_t)h->py.list_items + 8, items);
    dict = heap_dict(h, t_dict, heap_str(h, t_str, "cache"), list);
    module = heap_object(h, t_module, front);
    image_word(&h->img, module + head, dict);
    dict = heap_dict(h, t_dict, heap_str(h, t_str, "app"), module);
    heap_close_pool(h);
    image_word(&h->img, interp + (uint64_t)h->py.interp_modules, dict);
}

/* The interpreter, its allocator and its lists; the layout's offsets into it are made small. */
static inline void heap_image_init(struct heap_image *h, const struct pb_py_layout *py,
                                   uint8_t *bytes)
{
    uint64_t interp, arenas, heads, runtime = IMAGE_BASE + 4096;
    uint32_t one = 1, pools = HEAP_ARENA / HEAP_POOL;

    memset(h, 0, sizeof *h);
    h->py = *py;
    h->py.arena_size = HEAP_ARENA;
    h->py.pool_size = HEAP_POOL;
    h->py.interp_next = 0;
    h->py.interp_threads_head = 8;
    h->py.interp_modules = 16;
    h->py.interp_obmalloc = 24;
    h->py.obmalloc_is_pointer = 0;
    h->py.obmalloc_arenas = 0;
    h->py.interp_gc_lists = 64;
    h->py.interp_gc_permanent = 64 + 3 * h->py.gc_list_size;
    h->py.runtime_gc_lists = PB_NONE;
    image_init(&h->img, &h->py, bytes, HEAP_IMAGE);
    h->img.used += 8192;
    interp = image_room(&h->img, 512);
    arenas = image_room(&h->img, 48);
    image_word(&h->img, runtime, interp);
    image_word(&h->img, interp + 24, arenas);
    image_put(&h->img, interp + 32, &one, 4);
    for (int i = 0; i < 4; i++) {
        heads = interp + 64 + (uint64_t)(i * h->py.gc_list_size);
        image_word(&h->img, heads, heads);
        image_word(&h->img, heads + 8, heads);
    }
    h->gc_last = interp + 64;
    h->pool = HEAP_ARENA_AT;
    heap_fill(h, interp);
    image_word(&h->img, h->gc_last, interp + 64);
    image_word(&h->img, arenas, HEAP_ARENA_AT);
    image_word(&h->img, arenas + 8, h->pool);
    image_put(&h->img, arenas + 20, &pools, 4);
    h->loc = (struct pb_py_location){.layout = h->py, .interp_head = runtime};
    h->map = (struct pb_map){.start = IMAGE_BASE, .end = IMAGE_BASE + HEAP_IMAGE, .read = true,
                             .write = true, .path = ""};
    h->maps = (struct pb_maps){.v = &h->map, .n = 1};
    h->view = (struct pb_target_view){.mem = &h->img.mem, .maps = &h->maps, .loc = &h->loc};
}

#endif
