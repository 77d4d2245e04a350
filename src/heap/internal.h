/*
 * internal.h - one look at a heap on its way; for the files of heap/.
 *
 * Owns: the copies and tables of one look, until pb_heap_read is done.
 * Threads: one.
 * Fails: see heap.h.
 * Not here: what a caller needs (heap.h).
 */
#ifndef PB_HEAP_INTERNAL_H
#define PB_HEAP_INTERNAL_H

#include "heap/copy.h"
#include "heap/heap.h"
#include "stack/values/object.h"

/* How the size of an object is told, as sys.getsizeof() does. */
enum pb_heap_rule {
    PB_HEAP_PLAIN, /* basic size, and items where the type has them */
    PB_HEAP_INT,
    PB_HEAP_STR,
    PB_HEAP_LIST,
    PB_HEAP_DICT,
    PB_HEAP_SET,
    PB_HEAP_BYTEARRAY,
    PB_HEAP_TYPE,
    PB_HEAP_DEQUE,
    PB_HEAP_ARRAY,  /* of NumPy */
    PB_HEAP_FRAMED, /* generators and coroutines, with a frame inside (3.11 and later) */
    PB_HEAP_ORDERED_DICT,
};

struct pb_heap_kind {
    uint64_t addr;
    const struct pb_py_type *type;
    enum pb_heap_rule rule;
    unsigned prefix; /* bytes in front of the object: collector's head, managed slots */
    bool gc;
    uint64_t basicsize, itemsize;
    uint64_t count, bytes;
};

/* A range of memory that the allocator of small objects owns. */
struct pb_heap_range {
    uint64_t start, end;
    uint64_t before; /* bytes of the ranges in front of it */
};

struct pb_heap_candidate {
    uint64_t addr, items, bytes;
    const struct pb_heap_kind *kind;
};

/* A set of addresses. */
struct pb_heap_set {
    uint64_t *v;
    size_t cap, n;
};

struct pb_heap_look {
    const struct pb_py_layout *py;
    const struct pb_py_location *loc;
    const struct pb_heap_opts *o;
    struct pb_arena *a;
    struct pb_heap *ret;
    struct pb_copy copy;
    struct pb_py_reader reader; /* over the copy, results in `types` */
    struct pb_py_src src;
    struct pb_arena types;

    struct pb_heap_kind **kinds; /* by address, open addressing */
    size_t kinds_cap, nkinds;
    uint64_t *not_types; /* cache of addresses that are not types */

    struct pb_heap_range *small; /* sorted */
    size_t nsmall, small_cap;
    uint64_t small_lo, small_hi; /* lowest and highest address of `small` */
    struct pb_heap_range small_last; /* range of `small` that matched the last lookup */
    struct pb_heap_set large;    /* objects outside of `small`, found so far */
    uint64_t *queue;             /* objects of `large` whose words are not scanned yet */
    size_t nqueue, queue_cap;

    struct pb_heap_candidate *top; /* the largest containers so far, in order */
    size_t ntop;

    uint64_t work_left;   /* bytes to look at */
    uint64_t copies_left; /* bytes to read of the target */
    uint64_t clock_at;    /* work_left at which the clock is looked at next */
    size_t large_max;     /* limit of entries in `large` */
    bool late;
};

static inline uint64_t pb_heap_word(const uint8_t *p, int at)
{
    uint64_t v;

    memcpy(&v, p + at, sizeof v);
    return v;
}

#define PB_HEAP_OWN_MAX 32 /* containers of the program's own variables */

/* heap.c: "torch.nn.Linear" as module and name. */
void pb_heap_split_name(struct pb_heap_look *h, const struct pb_py_type *t, const char **ret_type,
                        const char **ret_module);
/* Takes bytes from the work that is left; false, now and ever after: none is left. */
bool pb_heap_spend(struct pb_heap_look *h, uint64_t bytes);

/* An object as it lies in the copy. */
struct pb_heap_object {
    uint64_t addr;
    const uint8_t *p; /* its first bytes */
    size_t have;      /* readable bytes at p; the block may be larger than the object */
    struct pb_heap_kind *kind;
};

/* types.c: the type at an address, NULL when it is none. */
struct pb_heap_kind *pb_heap_kind_at(struct pb_heap_look *h, uint64_t addr);
void pb_heap_kinds_finish(struct pb_heap_look *h);
/* Does a living object of a valid type begin at p? What lies in front of it is the caller's. */
bool pb_heap_is_object(struct pb_heap_look *h, const uint8_t *p, size_t have,
                       struct pb_heap_kind **ret);

/* size.c: bytes as sys.getsizeof() tells; 0 when it makes no sense. */
uint64_t pb_heap_size(struct pb_heap_look *h, const struct pb_heap_object *o);
/* Items of a list, tuple, dict, set or deque; 0 of others. */
uint64_t pb_heap_items(struct pb_heap_look *h, const struct pb_heap_object *o);

/* arenas.c, mimalloc.c: every block of the allocators of small objects. */
int pb_heap_arenas(struct pb_heap_look *h, struct pb_err *err);
int pb_heap_segments(struct pb_heap_look *h, struct pb_err *err);
void pb_heap_add_range(struct pb_heap_look *h, uint64_t start, uint64_t end);
bool pb_heap_is_small(struct pb_heap_look *h, uint64_t addr);
/* Offset of an address inside `small`, with all ranges laid end to end. */
static inline uint64_t pb_heap_small_offset(const struct pb_heap_look *h, uint64_t addr)
{
    return h->small_last.before + (addr - h->small_last.start);
}
/* One block, given out by the allocator: counted if it is an object; its words are followed. */
void pb_heap_block(struct pb_heap_look *h, const uint8_t *p, uint64_t addr, size_t size);

/* large.c: objects outside of the allocators of small ones. */
void pb_heap_gc_lists(struct pb_heap_look *h);
void pb_heap_follow(struct pb_heap_look *h, const uint8_t *p, size_t size);
void pb_heap_drain(struct pb_heap_look *h);
void pb_heap_count(struct pb_heap_look *h, const struct pb_heap_object *o);

/* How one object refers to another. */
enum pb_heap_label {
    PB_HEAP_FIELD,     /* a field of C without a name */
    PB_HEAP_ATTRIBUTE, /* name: the str */
    PB_HEAP_KEY,       /* value of a dict; name: the key */
    PB_HEAP_ITEM,      /* name: its number */
    PB_HEAP_OWN_DICT,  /* the dict that attributes are in */
};

typedef void pb_heap_ref_fn(void *arg, uint64_t ref, enum pb_heap_label label, uint64_t name);
/* refs.c: all references of an object; some words of unknown objects may be none. */
void pb_heap_each_ref(struct pb_heap_look *h, uint64_t addr, const struct pb_heap_kind *k,
                      pb_heap_ref_fn *visit, void *arg);

/* set.c */
bool pb_heap_set_add(struct pb_heap_set *s, uint64_t addr);
bool pb_heap_set_has(const struct pb_heap_set *s, uint64_t addr);
void pb_heap_set_finish(struct pb_heap_set *s);

#endif
