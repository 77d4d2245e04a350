#include "stack/values/object.h"

#include <string.h>

#define TYPE_BYTES 448 /* covers tp_name to tp_mro with the larger object head */
#define TYPE_NAME_MAX 256
#define BASES_MAX 24

struct pb_py_type_cache {
    struct pb_arena *arena; /* a reader may put its results into another one */
    struct pb_py_type **slots;
    size_t cap, used; /* cap is a power of two */
};

bool pb_py_get(struct pb_py_src *s, uint64_t addr, void *buf, size_t len)
{
    if (s->reads <= 0 || addr < 4096 || addr >= (UINT64_C(1) << 48))
        return false;
    s->reads--;
    return pb_mem_get(s->r->mem, addr, buf, len);
}

bool pb_py_open(struct pb_py_src *s, uint64_t addr, struct pb_py_obj *ret)
{
    const struct pb_py_layout *py = s->r->py;
    size_t to_page_end = 4096 - (addr & 4095);
    uint64_t type;

    if (!pb_py_is_ptr(addr))
        return false;
    /* One read gets most objects whole, and none may reach past the page they begin in. */
    ret->have = to_page_end < sizeof ret->head ? to_page_end : sizeof ret->head;
    if (ret->have < (size_t)py->ob_head)
        ret->have = (size_t)py->ob_head;
    ret->addr = addr;
    if (!pb_py_get(s, addr, ret->head, ret->have))
        return false;
    memcpy(&type, ret->head + py->ob_type, sizeof type);
    ret->type = pb_py_type_at(s, type);
    return ret->type != NULL;
}

bool pb_py_word(struct pb_py_src *s, const struct pb_py_obj *o, int offset, uint64_t *ret)
{
    if (offset < 0)
        return false;
    if ((size_t)offset + sizeof *ret <= o->have) {
        memcpy(ret, o->head + offset, sizeof *ret);
        return true;
    }
    return pb_py_get(s, o->addr + (uint64_t)offset, ret, sizeof *ret);
}

static struct pb_py_type **cache_slot(struct pb_py_type_cache *c, uint64_t addr)
{
    size_t i = (size_t)((addr >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (c->cap - 1);

    while (c->slots[i] && c->slots[i]->addr != addr)
        i = (i + 1) & (c->cap - 1);
    return &c->slots[i];
}

static void cache_grow(struct pb_py_type_cache *c)
{
    struct pb_py_type_cache old = *c;

    c->cap = old.cap ? old.cap * 2 : 128;
    c->slots = PB_NEW_N(c->arena, struct pb_py_type *, c->cap);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i])
            *cache_slot(c, old.slots[i]->addr) = old.slots[i];
}

void pb_py_reader_prepare(struct pb_py_reader *r)
{
    if (r->types)
        return;
    r->types = PB_NEW(r->arena, struct pb_py_type_cache);
    r->types->arena = r->arena;
}

static struct pb_py_type *cache_find(struct pb_py_reader *r, uint64_t addr)
{
    pb_py_reader_prepare(r);
    if (r->types->used * 2 >= r->types->cap)
        cache_grow(r->types);
    return *cache_slot(r->types, addr);
}

static void cache_add(struct pb_py_reader *r, struct pb_py_type *t)
{
    struct pb_py_type **slot = cache_slot(r->types, t->addr);

    if (!*slot)
        r->types->used++;
    *slot = t;
}

/* The kind that a type has by its own name; only a static type can be a built-in. */
static enum pb_py_kind kind_by_name(const struct pb_py_type *t)
{
    static const struct {
        const char *name;
        enum pb_py_kind kind;
    } kinds[] = {
#define X(kind, name) {name, PB_PY_##kind},
        PB_PY_KINDS(X)
#undef X
    };

    if (t->flags & PB_TP_HEAPTYPE)
        return PB_PY_OTHER;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, t->name) == 0)
            return kinds[i].kind;
    return PB_PY_OTHER;
}

static enum pb_py_kind kind_by_flags(uint64_t flags)
{
    static const struct {
        uint32_t bit;
        enum pb_py_kind kind;
    } bits[] = {
        {PB_TP_LONG, PB_PY_INT},
        {PB_TP_LIST, PB_PY_LIST},
        {PB_TP_TUPLE, PB_PY_TUPLE},
        {PB_TP_BYTES, PB_PY_BYTES},
        {PB_TP_STR, PB_PY_STR},
        {PB_TP_DICT, PB_PY_DICT},
        {PB_TP_EXCEPTION, PB_PY_EXCEPTION},
        {PB_TP_TYPE, PB_PY_TYPE},
    };

    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        if (flags & bits[i].bit)
            return bits[i].kind;
    return PB_PY_OTHER;
}

static uint64_t word_in(const uint8_t *bytes, int offset)
{
    uint64_t v;

    memcpy(&v, bytes + offset, sizeof v);
    return v;
}

/* A type that is torn, freed or none must not pass: everything else rests on it. */
static bool is_type(struct pb_py_src *s, const struct pb_py_type *t)
{
    uint64_t meta_flags;

    if (!pb_py_is_ptr(t->meta) || !(t->flags & PB_TP_READY) || !t->name[0])
        return false;
    if (t->basicsize < 0 || t->basicsize > (1 << 20) || t->itemsize < 0 || t->itemsize > (1 << 20))
        return false;
    for (const char *p = t->name; *p; p++)
        if ((unsigned char)*p < ' ')
            return false;
    if (t->meta == t->addr)
        return (t->flags & PB_TP_TYPE) != 0;
    return pb_py_get(s, t->meta + (uint64_t)s->r->py->type_flags, &meta_flags, sizeof meta_flags) &&
           (meta_flags & PB_TP_TYPE);
}

static struct pb_py_type *read_type(struct pb_py_src *s, uint64_t addr)
{
    const struct pb_py_layout *py = s->r->py;
    uint8_t bytes[TYPE_BYTES];
    char name[TYPE_NAME_MAX];
    struct pb_py_type t = {.addr = addr};
    size_t need = (size_t)py->type_dictoffset + 8;
    struct pb_py_type *copy;

    if (need > sizeof bytes || !pb_py_is_ptr(addr) || !pb_py_get(s, addr, bytes, need))
        return NULL;
    t.meta = word_in(bytes, py->ob_type);
    t.flags = word_in(bytes, py->type_flags);
    t.basicsize = (int64_t)word_in(bytes, py->type_basicsize);
    t.itemsize = (int64_t)word_in(bytes, py->type_itemsize);
    t.dictoffset = (int64_t)word_in(bytes, py->type_dictoffset);
    t.base = word_in(bytes, py->type_base);
    t.dict = word_in(bytes, py->type_dict);
    if (s->reads <= 0)
        return NULL;
    s->reads--;
    if (!pb_mem_string(s->r->mem, word_in(bytes, py->type_name), name, sizeof name))
        return NULL;
    t.name = name;
    if (!is_type(s, &t))
        return NULL;
    pb_py_reader_prepare(s->r);
    copy = PB_NEW(s->r->types->arena, struct pb_py_type);
    *copy = t;
    copy->name = pb_arena_strdup(s->r->types->arena, name);
    return copy;
}

static struct pb_py_type *find_or_read(struct pb_py_src *s, uint64_t addr)
{
    struct pb_py_type *t = cache_find(s->r, addr);

    if (t)
        return t;
    t = read_type(s, addr);
    if (t)
        cache_add(s->r, t);
    return t;
}

/* A class has the kind of the first base that is a known built-in. */
static enum pb_py_kind inherited_kind(struct pb_py_src *s, const struct pb_py_type *t)
{
    enum pb_py_kind kind;

    for (int i = 0; t && i < BASES_MAX; i++) {
        kind = kind_by_name(t);
        if (kind != PB_PY_OTHER)
            return kind;
        kind = kind_by_flags(t->flags);
        if (kind != PB_PY_OTHER)
            return kind;
        t = pb_py_is_ptr(t->base) ? find_or_read(s, t->base) : NULL;
    }
    return PB_PY_OTHER;
}

const struct pb_py_type *pb_py_type_at(struct pb_py_src *s, uint64_t addr)
{
    struct pb_py_type *t = cache_find(s->r, addr);

    if (t && t->kind_known)
        return t;
    t = find_or_read(s, addr);
    if (!t)
        return NULL;
    t->kind = kind_by_name(t);
    t->exact = t->kind != PB_PY_OTHER;
    if (!t->exact)
        t->kind = inherited_kind(s, t);
    t->kind_known = true;
    return t;
}

const char *pb_py_type_short(const struct pb_py_type *t)
{
    const char *dot = strrchr(t->name, '.');

    return dot && dot[1] ? dot + 1 : t->name;
}

void pb_py_type_names(struct pb_py_src *s, const struct pb_py_type *t, const char **ret_module,
                      const char **ret_qualname)
{
    const char *module = NULL, *qualname = NULL;
    uint64_t name = pb_py_dict_find(s, t->dict, "__module__");

    if (name)
        module = pb_py_str_at(s, name, TYPE_NAME_MAX);
    if (pb_py_get(s, t->addr + (uint64_t)s->r->py->type_qualname, &name, sizeof name))
        qualname = pb_py_str_at(s, name, TYPE_NAME_MAX);
    *ret_module = module ? module : "builtins";
    *ret_qualname = qualname ? qualname : pb_py_type_short(t);
}

const char *pb_py_type_full(struct pb_py_src *s, const struct pb_py_type *t)
{
    struct pb_py_type *cached = cache_find(s->r, t->addr);
    const char *module, *qualname;

    if (t->full)
        return t->full;
    if (!(t->flags & PB_TP_HEAPTYPE) || !cached)
        return t->name;
    pb_py_type_names(s, t, &module, &qualname);
    if (strcmp(module, "builtins") == 0)
        module = "";
    cached->full = pb_arena_printf(s->r->types->arena, "%s%s%s", module, *module ? "." : "",
                                   qualname);
    return cached->full;
}

const char *pb_py_type_name(struct pb_py_reader *r, uint64_t obj)
{
    struct pb_py_src s = {r, PB_PY_READS_MAX};
    struct pb_py_obj o;

    return pb_py_open(&s, pb_py_untag(r->py, obj), &o) ? o.type->name : "?";
}
