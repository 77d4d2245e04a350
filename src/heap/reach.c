/*
 * reach.c - who holds an object: the shortest way from a module's variable or a local one.
 *
 * A search in breadth over all references, from the roots on. Each object is met once, by a
 * shortest way. Ways of the same kind (the items of one list, the values of one dict) are one path,
 * so that a million nodes of a list are one line.
 */
#include <stdlib.h>

#include "heap/search.h"
#include "host/text/alloc.h"

#define NODE_COST 64 /* bytes of our own memory for each object that is met */

static size_t path_hash(uint32_t parent, uint8_t label, uint64_t name)
{
    uint64_t v = (name ^ (uint64_t)parent << 20 ^ label) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(v >> 24);
}

static void grow_slots(struct pb_heap_search *s)
{
    s->slots_cap = s->slots_cap ? s->slots_cap * 2 : 4096;
    s->path_slots = pb_alloc_resize(s->path_slots, s->slots_cap * sizeof *s->path_slots);
    memset(s->path_slots, 0, s->slots_cap * sizeof *s->path_slots);
    for (size_t i = 0; i < s->npaths; i++) {
        struct pb_heap_way *p = &s->paths[i];
        size_t k = path_hash(p->parent, p->label, p->name) & (s->slots_cap - 1);

        while (s->path_slots[k])
            k = (k + 1) & (s->slots_cap - 1);
        s->path_slots[k] = (uint32_t)i + 1;
    }
}

static uint32_t find_path(struct pb_heap_search *s, uint32_t parent, uint8_t label, uint64_t name)
{
    size_t k;

    if (s->npaths * 2 >= s->slots_cap)
        grow_slots(s);
    k = path_hash(parent, label, name) & (s->slots_cap - 1);
    for (; s->path_slots[k]; k = (k + 1) & (s->slots_cap - 1)) {
        const struct pb_heap_way *p = &s->paths[s->path_slots[k] - 1];

        if (p->parent == parent && p->label == label && p->name == name)
            return s->path_slots[k] - 1;
    }
    if (s->npaths == s->paths_cap) {
        s->paths_cap = s->paths_cap ? s->paths_cap * 2 : 1024;
        s->paths = pb_alloc_resize(s->paths, s->paths_cap * sizeof *s->paths);
    }
    s->paths[s->npaths] = (struct pb_heap_way){
        .parent = parent,
        .label = label,
        .name = name,
        .depth = parent == PB_HEAP_NO_NODE ? 0 : (uint8_t)(s->paths[parent].depth + 1),
    };
    s->path_slots[k] = (uint32_t)++s->npaths;
    return (uint32_t)s->npaths - 1;
}

/* The path of a node's child. The same step twice in a row, as in a chain, is one. */
static uint32_t next_path(struct pb_heap_search *s, uint8_t label, uint64_t name)
{
    uint32_t parent = s->nodes[s->at].path;
    const struct pb_heap_way *p = &s->paths[parent];

    if (label == PB_HEAP_ITEM || label == PB_HEAP_KEY)
        name = 0;
    else if (label == PB_HEAP_FIELD)
        name = s->at_kind->addr;
    if (p->depth >= PB_HEAP_DEPTH_MAX ||
        (p->label == label && p->name == name && p->parent != PB_HEAP_NO_NODE))
        return parent;
    return find_path(s, parent, label, name);
}

/* True the first time. Small objects by a bit: a table of all of them would not fit a cache. */
static bool see(struct pb_heap_search *s, uint64_t addr, bool only_ask)
{
    uint64_t at, bit;

    if (!pb_heap_is_small(s->h, addr))
        return only_ask ? !pb_heap_set_has(&s->seen, addr) : pb_heap_set_add(&s->seen, addr);
    at = pb_heap_small_offset(s->h, addr) / 8;
    bit = UINT64_C(1) << at % 64;
    if (s->seen_small[at / 64] & bit)
        return false;
    if (!only_ask)
        s->seen_small[at / 64] |= bit;
    return true;
}

static bool is_named(struct pb_heap_look *h, const struct pb_heap_kind *k, const char *name)
{
    const char *full, *dot = strrchr(name, '.');

    if (strcmp(pb_py_type_short(k->type), dot ? dot + 1 : name) != 0)
        return false;
    if (!dot)
        return true;
    h->src.reads = PB_PY_READS_MAX;
    full = pb_py_type_full(&h->src, k->type);
    return strcmp(full, name) == 0 ||
           (strncmp(name, "builtins.", 9) == 0 && strcmp(full, name + 9) == 0);
}

static uint64_t size_of(struct pb_heap_look *h, uint64_t addr, struct pb_heap_kind *k)
{
    struct pb_heap_object o = {.addr = addr, .kind = k, .have = 96};
    uint8_t head[96];

    while (!pb_copy_read(&h->copy, addr, head, o.have))
        if ((o.have -= 8) < (size_t)h->py->ob_head)
            return 0;
    o.p = head;
    return pb_heap_size(h, &o);
}

static void add_node(struct pb_heap_search *s, uint64_t addr, uint32_t parent, uint8_t label,
                     uint64_t name, uint32_t path)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 65536;
        s->nodes = pb_alloc_resize(s->nodes, s->cap * sizeof *s->nodes);
    }
    s->nodes[s->n++] = (struct pb_heap_node){addr, name, parent, path, label};
    for (size_t i = 0; i < s->nwanted && s->left; i++) {
        if (s->wanted[i] == addr && s->found[i] == PB_HEAP_NO_NODE) {
            s->found[i] = (uint32_t)s->n - 1;
            s->left--;
        }
    }
}

/* Nothing hangs on it. */
static bool is_leaf(const struct pb_heap_kind *k)
{
    return k->rule == PB_HEAP_STR || k->rule == PB_HEAP_INT || k->rule == PB_HEAP_BYTEARRAY ||
           k->type->kind == PB_PY_FLOAT || k->type->kind == PB_PY_BYTES ||
           k->type->kind == PB_PY_NONE || k->type->kind == PB_PY_BUILTIN;
}

static void meet(void *arg, uint64_t ref, enum pb_heap_label label, uint64_t name)
{
    struct pb_heap_search *s = arg;
    struct pb_heap_look *h = s->h;
    uint64_t addr = pb_py_untag(h->py, ref), is_type;
    struct pb_heap_kind *k;
    const uint8_t *p;
    uint32_t path;

    if (!pb_py_is_ptr(addr) || s->n >= s->nodes_max || !see(s, addr, true))
        return;
    p = pb_copy_at(&h->copy, addr, (size_t)h->py->ob_head);
    if (!p || !pb_heap_is_object(h, p, SIZE_MAX, &k))
        return;
    is_type = s->type && is_named(h, k, s->type);
    if (is_leaf(k) && !is_type)
        return;
    see(s, addr, false);
    path = s->type ? next_path(s, (uint8_t)label, name) : 0;
    if (is_type) {
        s->paths[path].count++;
        s->paths[path].bytes += size_of(h, addr, k);
    }
    if (!is_leaf(k))
        add_node(s, addr, s->at, (uint8_t)label, name, path);
}

static void add_roots(struct pb_heap_search *s)
{
    for (size_t i = 0; i < s->nroots; i++) {
        const struct pb_heap_root *r = &s->roots[i];
        uint64_t addr = pb_py_untag(s->h->py, r->addr);
        struct pb_heap_kind *k;
        uint32_t path;
        bool is_new = false;
        const uint8_t *p = pb_copy_at(&s->h->copy, addr, (size_t)s->h->py->ob_head);

        if (!p || !pb_heap_is_object(s->h, p, SIZE_MAX, &k))
            continue;
        path = find_path(s, PB_HEAP_NO_NODE, PB_HEAP_FIELD, i + 1);
        if (!is_leaf(k) || s->type)
            is_new = see(s, addr, false);
        if (is_new && s->type && is_named(s->h, k, s->type)) {
            s->paths[path].count++;
            s->paths[path].bytes += size_of(s->h, addr, k);
        }
        if (!is_leaf(k))
            add_node(s, addr, PB_HEAP_NO_NODE, PB_HEAP_FIELD, i + 1, path);
    }
}

static void expand(struct pb_heap_search *s)
{
    for (s->at = 0; s->at < s->n && (s->left || s->type); s->at++) {
        uint64_t addr = s->nodes[s->at].addr;
        const uint8_t *p = pb_copy_at(&s->h->copy, addr, (size_t)s->h->py->ob_head);
        struct pb_heap_kind *k;

        if (!p || !pb_heap_is_object(s->h, p, SIZE_MAX, &k))
            continue;
        s->at_kind = k;
        pb_heap_each_ref(s->h, addr, k, meet, s);
    }
}

static int compare_paths(const void *x, const void *y)
{
    const struct pb_heap_path *a = x, *b = y;

    return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->path, b->path);
}

static void list_paths(struct pb_heap_search *s)
{
    struct pb_heap *ret = s->h->ret;
    uint64_t reached = 0;

    ret->paths = PB_NEW_N(s->h->a, struct pb_heap_path, s->npaths + 1);
    for (size_t i = 0; i < s->npaths; i++) {
        if (!s->paths[i].count)
            continue;
        reached += s->paths[i].count;
        ret->paths[ret->npaths++] = (struct pb_heap_path){
            pb_heap_way_text(s, (uint32_t)i), s->paths[i].count, s->paths[i].bytes};
    }
    qsort(ret->paths, ret->npaths, sizeof *ret->paths, compare_paths);
    for (size_t i = 0; i < s->h->kinds_cap; i++) {
        const struct pb_heap_kind *k = s->h->kinds[i];

        if (k && k->count && is_named(s->h, k, s->type)) {
            ret->type_found = true;
            ret->unreached += k->count;
        }
    }
    ret->unreached = ret->unreached > reached ? ret->unreached - reached : 0;
}

struct pairs {
    unsigned same, all;
};

static void compare_pair(void *arg, uint64_t ref, enum pb_heap_label label, uint64_t name)
{
    struct pairs *p = arg;

    p->all += label == PB_HEAP_KEY;
    p->same += label == PB_HEAP_KEY && ref == name;
}

/* The interpreter's table of strings of which there shall be one only. */
static bool maps_to_itself(struct pb_heap_look *h, uint64_t addr)
{
    const uint8_t *p = pb_copy_at(&h->copy, addr, (size_t)h->py->ob_head);
    struct pairs pairs = {0};
    struct pb_heap_kind *k;

    if (!p || !pb_heap_is_object(h, p, SIZE_MAX, &k) || k->rule != PB_HEAP_DICT)
        return false;
    pb_heap_each_ref(h, addr, k, compare_pair, &pairs);
    return pairs.all > 100 && pairs.same == pairs.all;
}

void pb_heap_reach(struct pb_heap_look *h, const struct pb_heap_root *roots, size_t nroots)
{
    struct pb_heap_search s = {.h = h, .roots = roots, .nroots = nroots, .type = h->o->type};
    struct pb_heap *ret = h->ret;

    s.nodes_max = h->copy.limit / NODE_COST;
    s.nwanted = s.left = ret->ncontainers;
    s.wanted = PB_NEW_N(h->a, uint64_t, s.nwanted + 1);
    s.found = PB_NEW_N(h->a, uint32_t, s.nwanted + 1);
    s.seen_small = pb_alloc_resize(NULL, ret->allocator_bytes / 64 + 16);
    memset(s.seen_small, 0, ret->allocator_bytes / 64 + 16);
    for (size_t i = 0; i < s.nwanted; i++) {
        s.wanted[i] = ret->containers[i].addr;
        s.found[i] = PB_HEAP_NO_NODE;
        if (maps_to_itself(h, s.wanted[i])) {
            ret->containers[i].holder = "strings that the interpreter has interned";
            s.wanted[i] = 0;
            s.left--;
        }
    }
    add_roots(&s);
    expand(&s);
    for (size_t i = 0; i < s.nwanted; i++)
        if (s.found[i] != PB_HEAP_NO_NODE)
            ret->containers[i].holder = pb_heap_node_text(&s, s.found[i]);
    if (s.type)
        list_paths(&s);
    if (s.n >= s.nodes_max)
        ret->note = "not all holders were looked for: too many objects for the memory";
    free(s.nodes);
    free(s.paths);
    free(s.path_slots);
    free(s.seen_small);
    pb_heap_set_finish(&s.seen);
}
