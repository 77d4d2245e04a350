/* refs.c - what an object refers to, with the name of each reference where it has one. */
#include "heap/internal.h"

#define ITEMS_MAX (UINT64_C(1) << 32)
#define DEQUE_ITEMS 64
#define BODY_MAX 4096 /* bytes of an object of unknown inner form that are looked through */

struct walk {
    struct pb_heap_look *h;
    pb_heap_ref_fn *visit;
    void *arg;
};

/* A run of words in the target, each a reference. */
static void each_word(struct walk *w, uint64_t at, uint64_t n, enum pb_heap_label label,
                      uint64_t number)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t ref;

        if (!pb_heap_spend(w->h, 8) || !pb_copy_u64(&w->h->copy, at + i * 8, &ref))
            return;
        if (ref)
            w->visit(w->arg, ref, label, label == PB_HEAP_ITEM ? number + i : 0);
    }
}

static void each_item(struct walk *w, const uint8_t *p, uint64_t addr, bool is_list)
{
    const struct pb_py_layout *py = w->h->py;
    uint64_t n = pb_heap_word(p, py->ob_size), at = addr + (uint64_t)py->tuple_items;

    if (is_list)
        at = pb_heap_word(p, py->list_items);
    if (n < ITEMS_MAX)
        each_word(w, at, n, PB_HEAP_ITEM, 0);
}

/* Where the entries of a table of keys are, and how wide they are. */
struct table {
    uint64_t entries, n;
    unsigned stride, key;
};

static bool open_keys(struct pb_heap_look *h, uint64_t keys, struct table *t)
{
    uint8_t head[40];
    uint64_t size;

    if (!pb_py_is_ptr(keys) || !pb_copy_read(&h->copy, keys, head, sizeof head))
        return false;
    *t = (struct table){.stride = 24, .key = 8};
    if (h->py->dict == PB_DICT_311) {
        if (head[8] > 40 || head[9] > 44)
            return false;
        t->n = pb_heap_word(head, 24);
        t->entries = keys + 32 + (UINT64_C(1) << head[9]);
        if (head[10])
            t->stride = 16, t->key = 0;
        return t->n <= UINT64_C(1) << head[8];
    }
    size = pb_heap_word(head, 8);
    if (h->py->dict == PB_DICT_OLD) {
        t->n = size;
        t->entries = keys + 32;
    } else {
        t->n = pb_heap_word(head, 32);
        t->entries =
            keys + 40 + size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8);
    }
    return size < ITEMS_MAX && t->n <= size;
}

/* Values of shared keys: from 3.13 on their number stands in front of them. */
static uint64_t first_value(struct pb_heap_look *h, uint64_t values, struct table *t)
{
    const uint8_t *p;

    if (h->py->instance != PB_INSTANCE_INLINE_313)
        return values;
    p = pb_copy_at(&h->copy, values, 1);
    if (!p)
        return 0;
    t->n = t->n < p[0] ? t->n : p[0];
    return values + 8;
}

static void each_entry(struct walk *w, uint64_t keys, uint64_t values, enum pb_heap_label label)
{
    struct pb_heap_look *h = w->h;
    struct table t;

    if (!open_keys(h, keys, &t) || (values && !(values = first_value(h, values, &t))))
        return;
    for (uint64_t i = 0; i < t.n; i++) {
        uint64_t key = 0, value = 0;

        if (!pb_heap_spend(h, t.stride) ||
            !pb_copy_u64(&h->copy, t.entries + i * t.stride + t.key, &key) ||
            !pb_copy_u64(&h->copy, values ? values + i * 8 : t.entries + i * t.stride + t.key + 8,
                         &value))
            return;
        if (!key || !value)
            continue;
        w->visit(w->arg, value, label, key);
        if (label == PB_HEAP_KEY)
            w->visit(w->arg, key, PB_HEAP_FIELD, 0);
    }
}

static void each_in_dict(struct walk *w, uint64_t addr, enum pb_heap_label label)
{
    const struct pb_py_layout *py = w->h->py;
    uint64_t keys, values;

    if (pb_py_is_ptr(addr) && pb_copy_u64(&w->h->copy, addr + (uint64_t)py->dict_keys, &keys) &&
        pb_copy_u64(&w->h->copy, addr + (uint64_t)py->dict_values, &values))
        each_entry(w, keys, values, label);
}

static void each_in_set(struct walk *w, const uint8_t *p)
{
    const struct pb_py_layout *py = w->h->py;
    uint64_t n = pb_heap_word(p, py->set_mask) + 1, table = pb_heap_word(p, py->set_table);

    for (uint64_t i = 0; n < ITEMS_MAX && i < n; i++) {
        uint64_t entry[2];

        if (!pb_heap_spend(w->h, sizeof entry) ||
            !pb_copy_read(&w->h->copy, table + i * 16, entry, sizeof entry))
            return;
        if (entry[0] && entry[1] != UINT64_MAX)
            w->visit(w->arg, entry[0], PB_HEAP_ITEM, 0);
    }
}

static void each_in_deque(struct walk *w, const uint8_t *p)
{
    int head = w->h->py->ob_head;
    uint64_t at = pb_heap_word(p, head + 8), end = pb_heap_word(p, head + 16);
    uint64_t blocks = pb_heap_word(p, w->h->py->ob_size) / DEQUE_ITEMS + 2;

    for (uint64_t i = 0; pb_py_is_ptr(at) && i < blocks && pb_heap_spend(w->h, 1); i++) {
        each_word(w, at + 8, DEQUE_ITEMS, PB_HEAP_ITEM, i * DEQUE_ITEMS);
        if (at == end || !pb_copy_u64(&w->h->copy, at + 8 + DEQUE_ITEMS * 8, &at))
            return;
    }
}

/* The dict of an instance at a fixed place; 0: none. */
static uint64_t dict_at_offset(struct walk *w, const uint8_t *p, uint64_t addr,
                               const struct pb_py_type *t)
{
    int64_t offset = t->dictoffset;
    uint64_t dict = 0, size;

    if (offset < 0) {
        size = pb_heap_word(p, w->h->py->ob_size);
        size = (int64_t)size < 0 ? 0 - size : size;
        if (size > ITEMS_MAX)
            return 0;
        offset += (t->basicsize + (int64_t)size * t->itemsize + 7) & ~INT64_C(7);
    }
    if (offset <= 0 || offset & 7)
        return 0;
    return pb_copy_u64(&w->h->copy, addr + (uint64_t)offset, &dict) ? dict : 0;
}

/* Attributes, wherever this version keeps them; ret_dict: the dict that they are in, or 0. */
static void each_attribute(struct walk *w, const uint8_t *p, uint64_t addr,
                           const struct pb_py_type *t)
{
    const struct pb_py_layout *py = w->h->py;
    uint64_t slot[2], dict = 0, values = 0, keys;

    if (py->instance == PB_INSTANCE_DICTOFFSET || !(t->flags & PB_TP_MANAGED_DICT)) {
        dict = t->dictoffset ? dict_at_offset(w, p, addr, t) : 0;
    } else if (pb_copy_read(&w->h->copy, addr + (uint64_t)(int64_t)(py->managed_dict - 8), slot,
                            sizeof slot)) {
        const uint8_t *sizes;

        dict = slot[1];
        if (py->instance == PB_INSTANCE_VALUES_311) {
            values = slot[0];
            dict = values ? 0 : dict;
        } else if (py->instance == PB_INSTANCE_VALUES_312) {
            values = dict & 1 ? dict + 1 : 0;
            dict = values ? 0 : dict;
        } else if (!dict && t->flags & PB_TP_INLINE_VALUES) {
            sizes = pb_copy_at(&w->h->copy, addr + (uint64_t)t->basicsize, 4);
            values = sizes && sizes[3] ? addr + (uint64_t)t->basicsize : 0;
        }
    }
    if (values && pb_copy_u64(&w->h->copy, t->addr + (uint64_t)py->type_cached_keys, &keys))
        each_entry(w, keys, values, PB_HEAP_ATTRIBUTE);
    if (dict) {
        each_in_dict(w, dict, PB_HEAP_ATTRIBUTE);
        w->visit(w->arg, dict, PB_HEAP_OWN_DICT, 0);
    }
}

void pb_heap_each_ref(struct pb_heap_look *h, uint64_t addr, const struct pb_heap_kind *k,
                      pb_heap_ref_fn *visit, void *arg)
{
    struct walk w = {h, visit, arg};
    const struct pb_py_layout *py = h->py;
    uint8_t head[96];
    uint64_t size, dict;
    size_t have = sizeof head;

    while (!pb_copy_read(&h->copy, addr, head, have))
        if ((have -= 8) < (size_t)py->ob_head)
            return;
    memset(head + have, 0, sizeof head - have);
    switch (k->rule) {
    case PB_HEAP_LIST:
        each_item(&w, head, addr, true);
        break;
    case PB_HEAP_DICT:
    case PB_HEAP_ORDERED_DICT:
        each_in_dict(&w, addr, PB_HEAP_KEY);
        break;
    case PB_HEAP_SET:
        each_in_set(&w, head);
        break;
    case PB_HEAP_DEQUE:
        each_in_deque(&w, head);
        break;
    case PB_HEAP_TYPE:
        if (pb_copy_u64(&h->copy, addr + (uint64_t)py->type_dict, &dict))
            each_in_dict(&w, dict, PB_HEAP_ATTRIBUTE);
        each_word(&w, addr + (uint64_t)py->ob_head, (k->basicsize - (uint64_t)py->ob_head) / 8,
                  PB_HEAP_FIELD, 0);
        return;
    default:
        if (k->type->kind == PB_PY_MODULE) {
            each_in_dict(&w, pb_heap_word(head, py->ob_head), PB_HEAP_ATTRIBUTE);
        } else if (k->type->kind == PB_PY_TUPLE) {
            each_item(&w, head, addr, false);
        } else {
            size = k->rule == PB_HEAP_FRAMED ? BODY_MAX : k->basicsize;
            size = size < BODY_MAX ? size : BODY_MAX;
            each_word(&w, addr + (uint64_t)py->ob_head, (size - (uint64_t)py->ob_head) / 8,
                      PB_HEAP_FIELD, 0);
        }
    }
    each_attribute(&w, head, addr, k->type);
}
