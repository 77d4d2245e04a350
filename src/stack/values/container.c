/* Lists, tuples, dicts and sets as text. */
#include <string.h>

#include "stack/values/show.h"

#define ITEMS_MAX 64 /* shown of one container, whatever the caller asks for */
#define SLOTS_MAX 65536
#define CHUNK 32

static uint64_t items_shown(const struct pb_py_show *v, uint64_t total)
{
    uint64_t max = v->lim->items < ITEMS_MAX ? (uint64_t)v->lim->items : ITEMS_MAX;

    return total < max ? total : max;
}

/* The names of a named tuple's fields; false for any other tuple. */
static bool field_names(struct pb_py_show *v, const struct pb_py_obj *o, uint64_t *names,
                        uint64_t n)
{
    struct pb_py_src *s = &v->src;
    uint64_t fields, size;
    struct pb_py_obj tuple;

    if (o->type->exact || !(o->type->flags & PB_TP_HEAPTYPE))
        return false;
    fields = pb_py_dict_find(s, o->type->dict, "_fields");
    return fields && pb_py_open(s, fields, &tuple) && tuple.type->kind == PB_PY_TUPLE &&
           pb_py_word(s, &tuple, s->r->py->ob_size, &size) && size >= n &&
           pb_py_get(s, fields + (uint64_t)s->r->py->tuple_items, names, (size_t)n * 8);
}

static void show_items(struct pb_py_show *v, const uint64_t *items, const uint64_t *names,
                       uint64_t size)
{
    uint64_t shown = items_shown(v, size);

    for (uint64_t i = 0; i < size; i++) {
        char *name;

        if (!pb_py_show_next(v, i, size) || i >= shown)
            break;
        name = names ? pb_py_str_at(&v->src, names[i], 64) : NULL;
        if (name)
            pb_buf_printf(v->out, "%s=", name);
        pb_py_show_value(v, items[i]);
    }
}

static void show_sequence(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_layout *py = v->src.r->py;
    bool is_list = o->type->kind == PB_PY_LIST, named;
    uint64_t size, shown, items[ITEMS_MAX] = {0}, names[ITEMS_MAX] = {0};
    uint64_t at = o->addr + (uint64_t)py->tuple_items;

    if (!pb_py_word(&v->src, o, py->ob_size, &size) || size > (UINT64_C(1) << 40) ||
        (is_list && !pb_py_word(&v->src, o, py->list_items, &at))) {
        pb_buf_puts(v->out, "<unreadable>");
        return;
    }
    shown = items_shown(v, size);
    if (shown > 0 && !pb_py_get(&v->src, at, items, (size_t)shown * 8)) {
        pb_buf_printf(v->out, "<unreadable %s of %llu>", is_list ? "list" : "tuple",
                      (unsigned long long)size);
        return;
    }
    named = !is_list && field_names(v, o, names, shown);
    if (!named)
        pb_py_show_open(v, o);
    else
        pb_buf_puts(v->out, pb_py_type_short(o->type));
    if (pb_py_show_enter(v, o->addr, is_list ? "[]" : "()")) {
        pb_buf_putc(v->out, is_list ? '[' : '(');
        show_items(v, items, named ? names : NULL, size);
        if (size == 1 && !is_list && !named)
            pb_buf_putc(v->out, ',');
        pb_buf_putc(v->out, is_list ? ']' : ')');
        pb_py_show_leave(v);
    }
    if (!named)
        pb_py_show_close(v, o);
}

struct dict_walk {
    struct pb_py_show *v;
    uint64_t i, used;
};

static bool show_pair(uint64_t key, uint64_t value, void *arg)
{
    struct dict_walk *w = arg;

    if (!pb_py_show_next(w->v, w->i, w->used))
        return true;
    w->i++;
    pb_py_show_value(w->v, key);
    pb_buf_puts(w->v->out, ": ");
    pb_py_show_value(w->v, value);
    return false;
}

static void show_dict(struct pb_py_show *v, const struct pb_py_obj *o)
{
    struct dict_walk walk = {.v = v};

    if (!pb_py_word(&v->src, o, v->src.r->py->dict_used, &walk.used)) {
        pb_buf_puts(v->out, "<unreadable>");
        return;
    }
    pb_py_show_open(v, o);
    if (pb_py_show_enter(v, o->addr, "{}")) {
        pb_buf_putc(v->out, '{');
        if (!pb_py_dict_walk(&v->src, o->addr, show_pair, &walk))
            pb_buf_puts(v->out, v->src.reads > 0 ? "<unreadable>" : "…");
        pb_buf_putc(v->out, '}');
        pb_py_show_leave(v);
    }
    pb_py_show_close(v, o);
}

/* To 3.5 a removed key is marked by an object of a type of its own. */
static bool is_dummy(struct pb_py_show *v, uint64_t key)
{
    struct pb_py_obj o;

    return v->src.r->py->dict == PB_DICT_OLD && pb_py_open(&v->src, key, &o) &&
           o.type->name[0] == '<';
}

static void show_set_items(struct pb_py_show *v, uint64_t table, uint64_t mask, uint64_t used)
{
    struct {
        uint64_t key, hash;
    } entry[CHUNK];
    uint64_t i = 0;

    for (uint64_t at = 0; at <= mask && at < SLOTS_MAX && i < used; at += CHUNK) {
        size_t n = mask + 1 - at < CHUNK ? (size_t)(mask + 1 - at) : CHUNK;

        if (!pb_py_get(&v->src, table + at * sizeof entry[0], entry, n * sizeof entry[0])) {
            pb_buf_puts(v->out, v->src.reads > 0 ? "<unreadable>" : "…");
            return;
        }
        for (size_t k = 0; k < n && i < used; k++) {
            /* No object has the hash -1; a removed key has. */
            if (!entry[k].key || entry[k].hash == UINT64_MAX || is_dummy(v, entry[k].key))
                continue;
            if (!pb_py_show_next(v, i, used))
                return;
            pb_py_show_value(v, entry[k].key);
            i++;
        }
    }
}

static void show_set(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_layout *py = v->src.r->py;
    bool plain = o->type->exact && o->type->kind == PB_PY_SET;
    uint64_t used, mask, table;

    if (!pb_py_word(&v->src, o, py->set_used, &used) ||
        !pb_py_word(&v->src, o, py->set_mask, &mask) ||
        !pb_py_word(&v->src, o, py->set_table, &table) || mask > (UINT64_C(1) << 40)) {
        pb_buf_puts(v->out, "<unreadable>");
        return;
    }
    if (used == 0) {
        pb_buf_printf(v->out, "%s()", pb_py_type_short(o->type));
        return;
    }
    if (!plain)
        pb_buf_printf(v->out, "%s(", pb_py_type_short(o->type));
    if (pb_py_show_enter(v, o->addr, "{}")) {
        pb_buf_putc(v->out, '{');
        show_set_items(v, table, mask, used);
        pb_buf_putc(v->out, '}');
        pb_py_show_leave(v);
    }
    if (!plain)
        pb_buf_putc(v->out, ')');
}

bool pb_py_show_container(struct pb_py_show *v, const struct pb_py_obj *o)
{
    switch (o->type->kind) {
    case PB_PY_LIST:
    case PB_PY_TUPLE:
        show_sequence(v, o);
        return true;
    case PB_PY_DICT:
        show_dict(v, o);
        return true;
    case PB_PY_SET:
    case PB_PY_FROZENSET:
        show_set(v, o);
        return true;
    default:
        return false;
    }
}
