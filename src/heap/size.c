/* size.c - how large objects are, as sys.getsizeof() tells. */
#include "heap/internal.h"

#define SIZE_LIMIT (UINT64_C(1) << 46) /* no object is larger */
#define DEQUE_BLOCK 528                /* two links and 64 items */
#define DEQUE_ITEMS 64
#define DIMS_MAX 64
#define ORDERED_NODE 32

/* Behind the head of an array of NumPy: data, dimensions, their sizes, strides, …, flags. */
enum { ARRAY_ND = 8, ARRAY_DIMS = 16, ARRAY_STRIDES = 24, ARRAY_FLAGS = 48, ARRAY_OWNS = 4 };

/* A word of the object, from its copied bytes or from further behind. */
static uint64_t word(struct pb_heap_look *h, const struct pb_heap_object *o, int at)
{
    uint64_t v = 0;

    if ((size_t)at + 8 <= o->have)
        return pb_heap_word(o->p, at);
    pb_copy_u64(&h->copy, o->addr + (uint64_t)at, &v);
    return v;
}

static uint64_t int_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    const struct pb_py_layout *py = h->py;
    uint64_t tag = word(h, o, py->long_tag), digits;

    if (py->long_is_tagged)
        digits = tag >> 3 ? tag >> 3 : 1;
    else
        digits = (int64_t)tag < 0 ? 0 - tag : tag;
    return digits < SIZE_LIMIT / 4 ? (uint64_t)py->long_digits + digits * 4 : 0;
}

/* A str made by old C code, or one that was asked for as UTF-8, has another copy of itself. */
static uint64_t str_extra(struct pb_heap_look *h, const struct pb_heap_object *o, bool ascii,
                          bool compact)
{
    const struct pb_py_layout *py = h->py;
    uint64_t extra = 0, length = word(h, o, py->str_ascii_size);

    /* PyCompactUnicodeObject: length of the UTF-8, its address */
    if (!ascii && word(h, o, py->str_ascii_size + 8) && length < SIZE_LIMIT)
        extra = length + 1;
    if (py->str_wide != PB_NONE && word(h, o, py->str_wide) && compact && !ascii &&
        word(h, o, py->str_wide_length) < SIZE_LIMIT)
        extra += (word(h, o, py->str_wide_length) + 1) * sizeof(wchar_t);
    return extra;
}

static uint64_t str_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    const struct pb_py_layout *py = h->py;
    unsigned state = pb_py_str_state(py, word(h, o, py->str_state)), width = state & 7;
    uint64_t length = word(h, o, py->str_length), size;
    bool compact = state & 8, ascii = state & 16;

    if (length > SIZE_LIMIT / 4 || width > 4)
        return 0;
    if (compact && ascii)
        size = (uint64_t)py->str_ascii_size + length + 1;
    else if (compact)
        size = (uint64_t)py->str_compact_size + (length + 1) * width;
    else
        size = (uint64_t)py->str_compact_size + 8 + (width ? (length + 1) * width : 0);
    /* An instance of a subclass has more fields behind those of str. */
    if (!o->kind->type->exact && !compact && o->kind->basicsize > (uint64_t)py->str_compact_size)
        size += o->kind->basicsize - (uint64_t)py->str_compact_size - 8;
    return size + (ascii ? 0 : str_extra(h, o, ascii, compact));
}

/* Bytes of a table of keys, how many hold it, and slots of an array of values for it. */
static uint64_t keys_size(struct pb_heap_look *h, uint64_t keys, uint64_t *ret_users,
                          uint64_t *ret_slots)
{
    uint8_t head[40];
    uint64_t size, width, entry;

    if (!pb_py_is_ptr(keys) || !pb_copy_read(&h->copy, keys, head, 32))
        return 0;
    *ret_users = pb_heap_word(head, 0);
    switch (h->py->dict) {
    case PB_DICT_OLD:
        size = pb_heap_word(head, 8);
        *ret_slots = size;
        return size < SIZE_LIMIT / 24 ? 32 + size * 24 : 0;
    case PB_DICT_36:
        size = pb_heap_word(head, 8);
        width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
        *ret_slots = (size << 1) / 3;
        return size < SIZE_LIMIT / 24 ? 40 + size * width + *ret_slots * 24 : 0;
    default:
        if (head[8] > 40 || head[9] > 44)
            return 0;
        entry = head[10] == 0 ? 24 : 16;
        *ret_slots = pb_heap_word(head, 16) + pb_heap_word(head, 24);
        return 32 + (UINT64_C(1) << head[9]) + ((UINT64_C(2) << head[8]) / 3) * entry;
    }
}

static uint64_t dict_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    const struct pb_py_layout *py = h->py;
    uint64_t users = 0, slots = 0, keys = keys_size(h, word(h, o, py->dict_keys), &users, &slots);
    uint64_t size = o->kind->basicsize;

    if (word(h, o, py->dict_values) && slots < SIZE_LIMIT)
        size += slots * 8;
    /* Keys that several dicts share are part of their class. */
    return users == 1 ? size + keys : size;
}

/* A dict with a list of its keys: a node for each, and a table of nodes by their place. */
static uint64_t ordered_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    int at = h->py->dict_values + 8; /* first node, last node, the table, its length */
    uint64_t nodes = word(h, o, h->py->dict_used), slots = word(h, o, at + 24);

    if (nodes > SIZE_LIMIT / 32 || slots > SIZE_LIMIT / 8)
        return 0;
    return dict_size(h, o) + nodes * ORDERED_NODE + slots * 8;
}

/* The frame inside has room for the variables and the stack of its code. */
static uint64_t framed_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    const struct pb_py_layout *py = h->py;
    uint64_t code = word(h, o, py->gen_frame + py->f_code), start;
    uint32_t variables, stack;

    start = (uint64_t)(py->gen_frame + py->f_localsplus);
    code = pb_py_untag(py, code);
    if (py->co_nlocalsplus == PB_NONE || !pb_py_is_ptr(code) ||
        !pb_copy_read(&h->copy, code + (uint64_t)py->co_nlocalsplus, &variables, 4) ||
        !pb_copy_read(&h->copy, code + (uint64_t)py->co_stacksize, &stack, 4) ||
        variables > 1 << 20 || stack > 1 << 20)
        return start;
    return start + ((uint64_t)variables + stack) * 8;
}

static uint64_t set_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    const struct pb_py_layout *py = h->py;
    uint64_t table = word(h, o, py->set_table), mask = word(h, o, py->set_mask);
    bool inside = table >= o->addr && table < o->addr + o->kind->basicsize;

    if (mask > SIZE_LIMIT / 16)
        return 0;
    return o->kind->basicsize + (inside ? 0 : (mask + 1) * 16);
}

/* A class made by a program; those of C are part of it. */
static uint64_t type_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    uint64_t users, slots, keys, size = o->kind->basicsize;

    if (!(word(h, o, h->py->type_flags) & PB_TP_HEAPTYPE) || h->py->type_cached_keys == PB_NONE)
        return size;
    keys = word(h, o, h->py->type_cached_keys);
    return keys ? size + keys_size(h, keys, &users, &slots) : size;
}

static uint64_t deque_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    int head = h->py->ob_head;
    uint64_t items = word(h, o, h->py->ob_size), left = word(h, o, head + 24);

    if (items > SIZE_LIMIT || left > DEQUE_ITEMS)
        return 0;
    return o->kind->basicsize + (left + items + DEQUE_ITEMS - 1) / DEQUE_ITEMS * DEQUE_BLOCK;
}

static uint64_t array_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    int head = h->py->ob_head;
    uint64_t nd = (uint32_t)word(h, o, head + ARRAY_ND), bytes = 0, dims[DIMS_MAX];
    uint64_t strides[DIMS_MAX];

    if (nd > DIMS_MAX)
        return o->kind->basicsize;
    if (!(word(h, o, head + ARRAY_FLAGS) & ARRAY_OWNS))
        return o->kind->basicsize + nd * 16;
    if (nd && (!pb_copy_read(&h->copy, word(h, o, head + ARRAY_DIMS), dims, nd * 8) ||
               !pb_copy_read(&h->copy, word(h, o, head + ARRAY_STRIDES), strides, nd * 8)))
        return o->kind->basicsize;
    for (uint64_t i = 0; i < nd; i++) {
        uint64_t part;

        if (!dims[i])
            return o->kind->basicsize + nd * 16;
        if (__builtin_mul_overflow(dims[i], strides[i], &part) || part > SIZE_LIMIT)
            continue; /* turned round */
        bytes = part > bytes ? part : bytes;
    }
    return o->kind->basicsize + nd * 16 + bytes;
}

static uint64_t plain_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    uint64_t n, items = 0;

    if (o->kind->itemsize) {
        n = word(h, o, h->py->ob_size);
        n = (int64_t)n < 0 ? 0 - n : n;
        if (n > SIZE_LIMIT / o->kind->itemsize)
            return 0;
        items = n * o->kind->itemsize;
    }
    return o->kind->basicsize + items;
}

static uint64_t own_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    uint64_t n;

    switch (o->kind->rule) {
    case PB_HEAP_INT:
        return int_size(h, o);
    case PB_HEAP_STR:
        return str_size(h, o);
    case PB_HEAP_DICT:
        return dict_size(h, o);
    case PB_HEAP_SET:
        return set_size(h, o);
    case PB_HEAP_TYPE:
        return type_size(h, o);
    case PB_HEAP_DEQUE:
        return deque_size(h, o);
    case PB_HEAP_ARRAY:
        return array_size(h, o);
    case PB_HEAP_LIST:
        n = word(h, o, h->py->list_items + 8); /* allocated */
        return n < SIZE_LIMIT / 8 ? o->kind->basicsize + n * 8 : 0;
    case PB_HEAP_BYTEARRAY:
        n = word(h, o, h->py->ob_size + 8); /* allocated */
        return n < SIZE_LIMIT ? o->kind->basicsize + n : 0;
    case PB_HEAP_FRAMED:
        return framed_size(h, o);
    case PB_HEAP_ORDERED_DICT:
        return ordered_size(h, o);
    case PB_HEAP_PLAIN:
        break;
    }
    return plain_size(h, o);
}

uint64_t pb_heap_size(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    uint64_t size = own_size(h, o);

    return size && size < SIZE_LIMIT ? size + o->kind->prefix : 0;
}

uint64_t pb_heap_items(struct pb_heap_look *h, const struct pb_heap_object *o)
{
    const struct pb_py_layout *py = h->py;

    switch (o->kind->rule) {
    case PB_HEAP_LIST:
    case PB_HEAP_DEQUE:
        return word(h, o, py->ob_size);
    case PB_HEAP_DICT:
    case PB_HEAP_ORDERED_DICT:
        return word(h, o, py->dict_used);
    case PB_HEAP_SET:
        return word(h, o, py->set_used);
    default:
        return o->kind->type->kind == PB_PY_TUPLE ? word(h, o, py->ob_size) : 0;
    }
}
