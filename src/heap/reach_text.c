/* reach_text.c - how the way to an object is written. */
#include "heap/search.h"

#define SHOWN_MAX 8 /* steps that are printed; the middle is left out */
#define NAME_MAX 64
#define STEPS_MAX 64

static void put_step(struct pb_heap_search *s, struct pb_buf *out, uint8_t label, uint64_t name,
                     bool exact)
{
    static const struct pb_py_limits limits = {.depth = 1, .items = 2, .length = 24, .total = 40,
                                               .reads = 50};
    struct pb_heap_look *h = s->h;
    char *text;

    h->src.reads = PB_PY_READS_MAX;
    switch ((enum pb_heap_label)label) {
    case PB_HEAP_ATTRIBUTE:
        text = pb_py_str_at(&h->src, name, NAME_MAX);
        pb_buf_printf(out, ".%s", text ? text : "?");
        break;
    case PB_HEAP_KEY:
        pb_buf_putc(out, '[');
        if (exact)
            pb_py_value(&h->reader, name, &limits, out);
        else
            pb_buf_puts(out, "…");
        pb_buf_putc(out, ']');
        break;
    case PB_HEAP_ITEM:
        if (exact)
            pb_buf_printf(out, "[%llu]", (unsigned long long)name);
        else
            pb_buf_puts(out, "[…]");
        break;
    case PB_HEAP_OWN_DICT:
        pb_buf_puts(out, ".__dict__");
        break;
    case PB_HEAP_FIELD:
        pb_buf_puts(out, " › ");
        break;
    }
}

/* What an unnamed step led to, by its type: only there a path needs one. */
static void put_type(struct pb_heap_search *s, struct pb_buf *out, uint64_t addr)
{
    const uint8_t *p = pb_copy_at(&s->h->copy, addr, (size_t)s->h->py->ob_head);
    struct pb_heap_kind *k;

    if (p && pb_heap_is_object(s->h, p, SIZE_MAX, &k))
        pb_buf_puts(out, pb_py_type_short(k->type));
}

const char *pb_heap_node_text(struct pb_heap_search *s, uint32_t node)
{
    uint32_t way[STEPS_MAX];
    size_t n = 0;
    struct pb_buf out = PB_BUF_INIT;
    const char *text;

    for (; node != PB_HEAP_NO_NODE && n < STEPS_MAX; node = s->nodes[node].parent)
        way[n++] = node;
    if (node == PB_HEAP_NO_NODE)
        pb_buf_puts(&out, s->roots[s->nodes[way[--n]].name - 1].text);
    else
        pb_buf_puts(&out, "…");
    for (size_t shown = 0; n-- > 0; shown++) {
        const struct pb_heap_node *k = &s->nodes[way[n]];

        if (shown == SHOWN_MAX / 2 && n > SHOWN_MAX / 2) {
            pb_buf_puts(&out, " …");
            n = SHOWN_MAX / 2;
            k = &s->nodes[way[n]];
        }
        put_step(s, &out, k->label, k->name, true);
        if (k->label == PB_HEAP_FIELD)
            put_type(s, &out, k->addr);
    }
    text = pb_arena_strdup(s->h->a, out.data ? out.data : "");
    pb_buf_finish(&out);
    return text;
}

const char *pb_heap_way_text(struct pb_heap_search *s, uint32_t path)
{
    uint32_t way[PB_HEAP_DEPTH_MAX + 2];
    size_t n = 0;
    struct pb_buf out = PB_BUF_INIT;
    const char *text;

    for (; path != PB_HEAP_NO_NODE && n < PB_HEAP_DEPTH_MAX + 2; path = s->paths[path].parent)
        way[n++] = path;
    pb_buf_puts(&out, s->roots[s->paths[way[--n]].name - 1].text);
    while (n-- > 0) {
        const struct pb_heap_way *k = &s->paths[way[n]];

        put_step(s, &out, k->label, k->name, false);
        if (k->label == PB_HEAP_FIELD) {
            struct pb_heap_kind *owner = pb_heap_kind_at(s->h, k->name);

            pb_buf_printf(&out, "in %s", owner ? pb_py_type_short(owner->type) : "?");
        }
    }
    text = pb_arena_strdup(s->h->a, out.data ? out.data : "");
    pb_buf_finish(&out);
    return text;
}
