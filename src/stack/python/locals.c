#include "stack/python/locals.h"

#include <string.h>

#include "stack/values/pointer.h"

#define VARIABLES_MAX 4096
#define KIND_HIDDEN 0x10 /* variable of an inlined comprehension */
/* Bits of co_flags: the function takes *args, **kwargs. */
#define FLAG_VARARGS 4u
#define FLAG_VARKEYWORDS 8u

/* Adds the strings of a tuple of names. */
static void add_names(struct pb_py_reader *r, uint64_t tuple, struct pb_py_variables *v)
{
    const struct pb_py_layout *py = r->py;
    uint64_t n, *items;

    if (!pb_py_plausible(tuple) || !pb_mem_u64(r->mem, tuple + (uint64_t)py->ob_size, &n) ||
        n == 0 || n > VARIABLES_MAX)
        return;
    items = PB_NEW_N(r->arena, uint64_t, n);
    if (!pb_mem_get(r->mem, tuple + (uint64_t)py->tuple_items, items, n * 8))
        return;
    v->names = pb_arena_grow(r->arena, v->names, v->n * sizeof *v->names,
                             (v->n + n) * sizeof *v->names);
    for (size_t i = 0; i < n; i++)
        v->names[v->n++] = pb_py_str(r, items[i], 256);
}

static void read_names(struct pb_py_reader *r, uint64_t code, struct pb_py_variables *v)
{
    const struct pb_py_layout *py = r->py;
    const int at[3] = {py->co_varnames, py->co_cellvars, py->co_freevars};

    for (size_t i = 0; i < 3; i++) {
        uint64_t tuple;

        if (at[i] != PB_NONE && pb_mem_u64(r->mem, code + (uint64_t)at[i], &tuple))
            add_names(r, tuple, v);
    }
}

/* The kind of each variable, from 3.11 on; NULL before. */
static const uint8_t *read_kinds(struct pb_py_reader *r, uint64_t code, size_t *ret_n)
{
    const struct pb_py_layout *py = r->py;
    uint64_t obj;

    *ret_n = 0;
    if (py->co_localspluskinds == PB_NONE ||
        !pb_mem_u64(r->mem, code + (uint64_t)py->co_localspluskinds, &obj))
        return NULL;
    return pb_py_bytes(r, obj, VARIABLES_MAX, ret_n);
}

/* Arguments come first in a frame: the named ones, *args, **kwargs. */
static size_t count_arguments(struct pb_py_reader *r, uint64_t code)
{
    const struct pb_py_layout *py = r->py;
    uint32_t named = 0, keyword_only = 0, flags = 0;
    struct pb_mem_range v[3] = {
        {code + (uint64_t)py->co_argcount, &named, 4},
        {code + (uint64_t)py->co_kwonlyargcount, &keyword_only, 4},
        {code + (uint64_t)py->co_flags, &flags, 4},
    };

    if (r->mem->read(r->mem, v, 3) != 3 || named > VARIABLES_MAX || keyword_only > VARIABLES_MAX)
        return 0;
    return (size_t)named + keyword_only + !!(flags & FLAG_VARARGS) + !!(flags & FLAG_VARKEYWORDS);
}

/* To 3.10 an argument that an inner function uses has moved to a cell of the same name. */
static bool is_argument(const struct pb_py_variables *v, size_t index)
{
    if (index < v->nargs)
        return true;
    for (size_t i = 0; !v->kinds && i < v->nargs && i < v->n; i++)
        if (v->names[i] && strcmp(v->names[i], v->names[index]) == 0)
            return true;
    return false;
}

/* A name that cannot be read now may be the next time. */
static const struct pb_py_variables *variables(struct pb_py_codes *c, struct pb_py_code *code)
{
    struct pb_py_variables *v = &code->variables;

    if (v->known)
        return v;
    *v = (struct pb_py_variables){.known = true};
    if (pb_py_codes_are_full(c))
        return v;
    read_names(&c->reader, code->addr, v);
    v->kinds = read_kinds(&c->reader, code->addr, &v->nkinds);
    v->nargs = count_arguments(&c->reader, code->addr);
    for (size_t i = 0; i < v->n; i++)
        v->known = v->known && v->names[i];
    return v;
}

/* A variable shared with an inner function lives in a cell: {header, content}. */
static uint64_t open_cell(struct pb_py_reader *r, uint64_t obj)
{
    uint64_t content;

    if (!pb_py_plausible(obj) || strcmp(pb_py_type_name(r, obj), "cell") != 0)
        return obj;
    if (!pb_mem_u64(r->mem, obj + (uint64_t)r->py->ob_type + 8, &content))
        return obj;
    return content;
}

/* Tags below the address: a small integer carries both bits (3.14). */
static uint64_t untag(const struct pb_py_layout *py, uint64_t slot)
{
    if (!py->tagged || (slot & 3) == 3)
        return slot;
    return slot & ~(uint64_t)3;
}

static const char *show(struct pb_py_reader *r, uint64_t slot)
{
    struct pb_buf text = PB_BUF_INIT;
    const char *s;

    if (r->py->tagged && (slot & 3) == 3)
        return pb_arena_printf(r->arena, "%lld", (long long)((int64_t)slot >> 2));
    pb_py_value(r, slot, &pb_py_limits_default, &text);
    s = pb_arena_strdup(r->arena, text.data ? text.data : "");
    pb_buf_finish(&text);
    return s;
}

size_t pb_py_slots(struct pb_py_codes *c, struct pb_py_code *code,
                   const struct pb_py_raw_frame *f, struct pb_arena *a, struct pb_py_slot **ret)
{
    const struct pb_py_variables *v = variables(c, code);
    const struct pb_py_layout *py = c->reader.py;
    size_t n = 0;

    *ret = PB_NEW_N(a, struct pb_py_slot, v->n + 1);
    for (size_t i = 0; i < v->n; i++) {
        size_t at = (size_t)py->f_localsplus + i * 8;
        uint64_t slot;

        if (at + 8 > f->len)
            break;
        memcpy(&slot, f->bytes + at, sizeof slot);
        slot = untag(py, slot);
        if (!(py->tagged && (slot & 3) == 3))
            slot = open_cell(&c->reader, slot);
        if (!slot || !v->names[i] || (v->kinds && i < v->nkinds && (v->kinds[i] & KIND_HIDDEN)))
            continue;
        (*ret)[n++] = (struct pb_py_slot){v->names[i], slot, is_argument(v, i)};
    }
    return n;
}

size_t pb_py_locals(struct pb_py_codes *c, struct pb_py_code *code,
                    const struct pb_py_raw_frame *f, struct pb_arena *a, struct pb_local **ret)
{
    const struct pb_py_variables *v = variables(c, code);
    struct pb_py_reader r = c->reader;
    struct pb_py_slot *slots;
    size_t n;

    r.arena = a; /* values do not belong into the cache of code objects */
    if (!v->n && code->name && strcmp(code->name, "<module>") == 0)
        return pb_py_globals(&r, f, ret);
    n = pb_py_slots(c, code, f, a, &slots);
    *ret = PB_NEW_N(a, struct pb_local, n + 1);
    for (size_t i = 0; i < n; i++)
        (*ret)[i] = (struct pb_local){slots[i].name, show(&r, slots[i].ref), slots[i].argument};
    return n;
}
