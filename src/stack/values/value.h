/*
 * value.h - Python values read from memory and shown as text.
 *
 * Owns: nothing.
 * Threads: one per reader object.
 * Fails: never; what cannot be read is shown as `<unreadable>`. Cyclic, torn
 * and hostile data end by depth, length and a budget of reads.
 * Not here: which variables there are (frames.h).
 */
#ifndef PB_STACK_VALUES_VALUE_H
#define PB_STACK_VALUES_VALUE_H

#include "host/text/arena.h"
#include "host/text/buf.h"
#include "host/process/mem.h"
#include "cpython/layout.h"

struct pb_py_reader {
    struct pb_mem *mem;
    const struct pb_py_layout *py;
    struct pb_arena *arena; /* results; the type cache, too, when it is made here */
    struct pb_py_type_cache *types; /* made at first use, NULL before */
};

/*
 * Makes the type cache in the reader's arena. Copies of the reader made after
 * this share it, and may put their results into arenas that live shorter.
 */
void pb_py_reader_prepare(struct pb_py_reader *r);

struct pb_py_limits {
    int depth;    /* levels of containers, 3 by default */
    int items;    /* shown per container, 8 */
    int length;   /* characters of one str or bytes, 120 */
    int total;    /* bytes of one rendered value, 500 */
    int reads;    /* target reads for one value, 400 */
};

extern const struct pb_py_limits pb_py_limits_default;

/* Appends the text of the object at addr, as repr() would where that can be told. */
void pb_py_value(struct pb_py_reader *r, uint64_t addr, const struct pb_py_limits *lim,
                 struct pb_buf *out);

/* A str object as UTF-8 in the arena; NULL when it is none or cannot be read. max in bytes. */
char *pb_py_str(struct pb_py_reader *r, uint64_t addr, size_t max);
/* Any bytes object, copied; NULL when it is none. */
uint8_t *pb_py_bytes(struct pb_py_reader *r, uint64_t addr, size_t max, size_t *ret_len);
/* tp_name of an object's type; "?" when it cannot be read. */
const char *pb_py_type_name(struct pb_py_reader *r, uint64_t obj);

/* Calls visit for each item until it returns true. False: not a dict, or torn. */
bool pb_py_dict_each(struct pb_py_reader *r, uint64_t dict,
                     bool (*visit)(uint64_t key, uint64_t value, void *arg), void *arg);
/* Value for a str key, 0 when absent. */
uint64_t pb_py_dict_get(struct pb_py_reader *r, uint64_t dict, const char *key);
/* Attribute out of an instance's own dict or inline values (no class lookup), 0 when absent. */
uint64_t pb_py_instance_get(struct pb_py_reader *r, uint64_t obj, const char *name);
/* An int that fits 64 bits; false otherwise. */
bool pb_py_int(struct pb_py_reader *r, uint64_t obj, int64_t *ret);

#endif
