/*
 * own.c - containers of the program's own variables, however small: a list of tensors takes few
 * bytes and may hold gigabytes of a device.
 */
#include "heap/reach.h"

#define HEAD 96          /* bytes of an object that are looked at */
#define ITEMS_MIN 32     /* a container that grows has more */
#define LOOKED_MAX 20000 /* variables and attributes */

struct own {
    struct pb_heap_look *h;
    bool inside; /* inside an object's attributes: none of theirs are looked at */
    size_t looked;
};

static bool is_known(const struct pb_heap *ret, uint64_t addr)
{
    for (size_t i = 0; i < ret->ncontainers; i++)
        if (ret->containers[i].addr == addr)
            return true;
    return false;
}

static void add(struct pb_heap_look *h, const struct pb_heap_object *o, uint64_t items)
{
    struct pb_heap *ret = h->ret;
    struct pb_heap_container *c = &ret->containers[ret->ncontainers++];

    *c = (struct pb_heap_container){.addr = o->addr, .items = items, .bytes = pb_heap_size(h, o)};
    pb_heap_split_name(h, o->kind->type, &c->type, &c->module);
}

static void visit(void *arg, uint64_t ref, enum pb_heap_label label, uint64_t name)
{
    struct own *w = arg;
    struct pb_heap_look *h = w->h;
    struct pb_heap_object o = {.addr = ref, .have = HEAD};
    uint8_t head[HEAD];
    uint64_t items;

    (void)name;
    if (label == PB_HEAP_OWN_DICT || w->looked++ > LOOKED_MAX ||
        h->ret->ncontainers >= h->o->containers + PB_HEAP_OWN_MAX || !pb_heap_spend(h, HEAD) ||
        !pb_copy_read(&h->copy, ref, head, HEAD))
        return;
    o.p = head;
    if (!pb_heap_is_object(h, head, SIZE_MAX, &o.kind) || o.kind->rule == PB_HEAP_TYPE ||
        o.kind->type->kind == PB_PY_MODULE)
        return;
    items = pb_heap_items(h, &o);
    if (items >= ITEMS_MIN && !is_known(h->ret, ref)) {
        add(h, &o, items);
    } else if (!items && !w->inside && o.kind->rule == PB_HEAP_PLAIN) {
        w->inside = true;
        pb_heap_each_ref(h, ref, o.kind, visit, w);
        w->inside = false;
    }
}

void pb_heap_add_own(struct pb_heap_look *h, const struct pb_heap_root *roots, size_t n)
{
    struct own w = {.h = h};

    for (size_t i = 0; i < n; i++) {
        struct pb_heap_kind *k;
        uint8_t head[HEAD];

        if (strcmp(roots[i].text, "__main__") == 0) {
            if (pb_copy_read(&h->copy, roots[i].addr, head, HEAD) &&
                pb_heap_is_object(h, head, SIZE_MAX, &k))
                pb_heap_each_ref(h, roots[i].addr, k, visit, &w);
        } else if (roots[i].is_local) {
            visit(&w, roots[i].addr, PB_HEAP_FIELD, 0);
        }
    }
}
