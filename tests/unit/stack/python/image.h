/*
 * image.h - for tests and fuzzers: Python objects in an image of memory.
 *
 * Owns: nothing; the bytes are the caller's.
 * Threads: one.
 * Fails: objects beyond the end of the image are left out.
 * Not here: what a reader makes of them.
 *
 * It writes what an interpreter of the given layout would hold, so that
 * versions which no machine of ours runs can be read in tests.
 */
#ifndef PB_TEST_IMAGE_H
#define PB_TEST_IMAGE_H

#include <stdint.h>
#include <string.h>

#include "host/process/mem.h"
#include "stack/values/object.h"

#define IMAGE_BASE UINT64_C(0x100000)

struct image {
    uint8_t *bytes;
    size_t cap, used;
    const struct pb_py_layout *py;
    struct pb_mem mem;
    uint64_t meta; /* the type `type` */
};

static inline size_t image_read(struct pb_mem *mem, const struct pb_mem_range *v, size_t n)
{
    const struct image *img = mem->arg;

    for (size_t i = 0; i < n; i++) {
        if (v[i].addr < IMAGE_BASE || v[i].addr - IMAGE_BASE > img->cap ||
            v[i].len > img->cap - (v[i].addr - IMAGE_BASE))
            return i;
        memcpy(v[i].buf, img->bytes + (v[i].addr - IMAGE_BASE), v[i].len);
    }
    return n;
}

static inline void image_put(struct image *img, uint64_t addr, const void *data, size_t len)
{
    if (addr >= IMAGE_BASE && addr - IMAGE_BASE + len <= img->cap)
        memcpy(img->bytes + (addr - IMAGE_BASE), data, len);
}

static inline void image_word(struct image *img, uint64_t addr, uint64_t value)
{
    image_put(img, addr, &value, sizeof value);
}

/* Room for an object, with the words that some versions keep in front of it. */
static inline uint64_t image_room(struct image *img, size_t size)
{
    uint64_t addr;

    img->used = (img->used + 32 + 15) & ~(size_t)15;
    addr = IMAGE_BASE + img->used;
    img->used += size;
    return addr;
}

static inline uint64_t image_object(struct image *img, uint64_t type, size_t size)
{
    uint64_t addr = image_room(img, size);

    image_word(img, addr + (uint64_t)img->py->ob_type, type);
    return addr;
}

static inline uint64_t image_type(struct image *img, const char *name, uint64_t flags)
{
    uint64_t text = image_room(img, strlen(name) + 1);
    uint64_t addr = image_object(img, img->meta, 1000);

    image_put(img, text, name, strlen(name) + 1);
    image_word(img, addr + (uint64_t)img->py->type_name, text);
    image_word(img, addr + (uint64_t)img->py->type_flags, flags | PB_TP_READY);
    image_word(img, addr + (uint64_t)img->py->type_basicsize, (uint64_t)img->py->ob_head);
    return addr;
}

static inline void image_init(struct image *img, const struct pb_py_layout *py, uint8_t *bytes,
                              size_t cap)
{
    memset(img, 0, sizeof *img);
    memset(bytes, 0, cap);
    img->bytes = bytes;
    img->cap = cap;
    img->py = py;
    img->mem.read = image_read;
    img->mem.arg = img;
    img->meta = image_type(img, "type", PB_TP_TYPE);
    image_word(img, img->meta + (uint64_t)py->ob_type, img->meta);
}

static inline uint64_t image_int(struct image *img, uint64_t type, uint32_t value)
{
    uint64_t addr = image_object(img, type, 48);

    image_word(img, addr + (uint64_t)img->py->long_tag,
               img->py->long_is_tagged ? (value ? 1 << 3 : 1) : value != 0);
    image_put(img, addr + (uint64_t)img->py->long_digits, &value, sizeof value);
    return addr;
}

/* A compact str of ASCII characters. */
static inline uint64_t image_str(struct image *img, uint64_t type, const char *text)
{
    uint64_t addr = image_object(img, type, (size_t)img->py->str_ascii_size + strlen(text) + 1);
    /* Both ways of a build without a GIL (pb_py_str_state), by the length of the text. */
    int kind_shift = img->py->free_threaded && strlen(text) % 2 ? 8 : 2;

    image_word(img, addr + (uint64_t)img->py->str_length, strlen(text));
    image_word(img, addr + (uint64_t)img->py->str_state,
               (uint64_t)(1 | 8 | 16) << kind_shift);
    image_put(img, addr + (uint64_t)img->py->str_ascii_size, text, strlen(text) + 1);
    return addr;
}

static inline uint64_t image_tuple(struct image *img, uint64_t type, const uint64_t *items,
                                   size_t n)
{
    uint64_t addr = image_object(img, type, (size_t)img->py->tuple_items + 8 * n);

    image_word(img, addr + (uint64_t)img->py->ob_size, n);
    image_put(img, addr + (uint64_t)img->py->tuple_items, items, 8 * n);
    return addr;
}

static inline uint64_t image_list(struct image *img, uint64_t type, const uint64_t *items, size_t n)
{
    uint64_t array = image_room(img, 8 * n);
    uint64_t addr = image_object(img, type, (size_t)img->py->list_items + 16);

    image_put(img, array, items, 8 * n);
    image_word(img, addr + (uint64_t)img->py->ob_size, n);
    image_word(img, addr + (uint64_t)img->py->list_items, array);
    return addr;
}

/* A table of eight slots; with values it is a split one that holds the keys only. */
static inline uint64_t image_keys(struct image *img, const uint64_t *keys, const uint64_t *values,
                                  size_t n)
{
    uint64_t addr = image_room(img, 512);
    size_t stride = 24, key = 8, entries = 0;
    uint8_t sizes[4] = {3, 3, 0, 0};

    switch (img->py->dict) {
    case PB_DICT_OLD:
        image_word(img, addr + 8, 8);
        entries = 32;
        break;
    case PB_DICT_36:
        image_word(img, addr + 8, 8);
        image_word(img, addr + 32, n);
        entries = 40 + 8;
        break;
    case PB_DICT_311:
        sizes[2] = 1; /* str keys only */
        image_put(img, addr + 8, sizes, sizeof sizes);
        image_word(img, addr + 24, n);
        entries = 32 + 8;
        stride = 16;
        key = 0;
    }
    for (size_t i = 0; i < n; i++) {
        image_word(img, addr + entries + i * stride + key, keys[i]);
        image_word(img, addr + entries + i * stride + key + 8, values ? values[i] : 0);
    }
    return addr;
}

static inline uint64_t image_dict(struct image *img, uint64_t type, uint64_t keys, uint64_t values,
                                  size_t used)
{
    uint64_t addr = image_object(img, type, 64);

    image_word(img, addr + (uint64_t)img->py->dict_used, used);
    image_word(img, addr + (uint64_t)img->py->dict_keys, keys);
    image_word(img, addr + (uint64_t)img->py->dict_values, values);
    return addr;
}

/* An object of each common kind, all inside the list whose address is returned. */
static inline uint64_t image_sample(struct image *img)
{
    uint64_t t_int = image_type(img, "int", PB_TP_LONG), t_str = image_type(img, "str", PB_TP_STR);
    uint64_t t_list = image_type(img, "list", PB_TP_LIST),
             t_dict = image_type(img, "dict", PB_TP_DICT);
    uint64_t t_tuple = image_type(img, "tuple", PB_TP_TUPLE),
             t_none = image_type(img, "NoneType", 0);
    uint64_t t_float = image_type(img, "float", 0), t_set = image_type(img, "set", 0);
    uint64_t item[8], key, set, table, number;
    double half = 0.5;

    number = image_int(img, t_int, 42);
    key = image_str(img, t_str, "key");
    item[0] = image_object(img, t_none, 32);
    item[1] = number;
    item[2] = image_str(img, t_str, "text");
    item[3] = image_object(img, t_float, 40);
    image_put(img, item[3] + (uint64_t)img->py->float_value, &half, sizeof half);
    item[4] = image_tuple(img, t_tuple, &number, 1);
    item[5] = image_dict(img, t_dict, image_keys(img, &key, &number, 1), 0, 1);
    set = image_object(img, t_set, 216);
    table = image_room(img, 8 * 16);
    image_word(img, table + 16 * 2, number);
    image_word(img, set + (uint64_t)img->py->set_used, 1);
    image_word(img, set + (uint64_t)img->py->set_mask, 7);
    image_word(img, set + (uint64_t)img->py->set_table, table);
    item[6] = set;
    return image_list(img, t_list, item, 7);
}

#endif
