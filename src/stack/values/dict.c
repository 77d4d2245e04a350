/*
 * Dicts and the attributes of instances.
 *
 * All versions keep the keys in a table apart from the dict. To 3.5 the table
 * is a hash table of (hash, key, value); from 3.6 on it is a hash table of
 * indices followed by the entries in order of insertion. A dict with shared
 * keys has its values in an array of its own, and from 3.11 on an instance may
 * have such values and no dict at all.
 */
#include "stack/values/object.h"

#include <string.h>

#define CHUNK 32 /* entries read at once */
#define ENTRIES_MAX (UINT64_C(1) << 32)

/* Where the entries of a table are. */
struct table {
    uint64_t entries; /* address */
    uint64_t n;
    unsigned stride; /* bytes of an entry */
    unsigned key;    /* the key's offset inside it; the value follows */
    uint64_t values; /* array of values of a split table, 0 otherwise */
};

static uint64_t word_in(const uint8_t *bytes, size_t offset)
{
    uint64_t v;

    memcpy(&v, bytes + offset, sizeof v);
    return v;
}

static bool keys_old(struct pb_py_src *s, uint64_t keys, struct table *t)
{
    uint8_t head[32]; /* refcnt, size, lookup, usable */

    if (!pb_py_get(s, keys, head, sizeof head))
        return false;
    t->n = word_in(head, 8);
    t->entries = keys + sizeof head;
    t->stride = 24;
    t->key = 8;
    return t->n <= ENTRIES_MAX;
}

static bool keys_36(struct pb_py_src *s, uint64_t keys, struct table *t)
{
    uint8_t head[40]; /* refcnt, size, lookup, usable, nentries */
    uint64_t size, width;

    if (!pb_py_get(s, keys, head, sizeof head))
        return false;
    size = word_in(head, 8);
    t->n = word_in(head, 32);
    if (size > ENTRIES_MAX || t->n > size)
        return false;
    width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
    t->entries = keys + sizeof head + size * width;
    t->stride = 24;
    t->key = 8;
    return true;
}

static bool keys_311(struct pb_py_src *s, uint64_t keys, struct table *t)
{
    uint8_t head[32]; /* refcnt, log2 sizes and kind, usable, nentries */

    if (!pb_py_get(s, keys, head, sizeof head) || head[8] > 32 || head[9] > 40)
        return false;
    t->n = word_in(head, 24);
    if (t->n > UINT64_C(1) << head[8])
        return false;
    t->entries = keys + sizeof head + (UINT64_C(1) << head[9]);
    t->stride = head[10] == 0 ? 24 : 16; /* str keys only: no hash in the entry */
    t->key = head[10] == 0 ? 8 : 0;
    return true;
}

static bool read_keys(struct pb_py_src *s, uint64_t keys, struct table *t)
{
    if (!pb_py_is_ptr(keys))
        return false;
    switch (s->r->py->dict) {
    case PB_DICT_OLD:
        return keys_old(s, keys, t);
    case PB_DICT_36:
        return keys_36(s, keys, t);
    case PB_DICT_311:
        return keys_311(s, keys, t);
    }
    return false;
}

/* Values of a split table: from 3.13 on four bytes of sizes stand in front of them. */
static bool use_values(struct pb_py_src *s, uint64_t values, struct table *t)
{
    uint8_t head[8];

    t->values = values;
    if (!pb_py_is_ptr(values))
        return false;
    if (s->r->py->instance != PB_INSTANCE_INLINE_313)
        return true;
    if (!pb_py_get(s, values, head, sizeof head))
        return false;
    t->values += sizeof head;
    if (t->n > head[0])
        t->n = head[0];
    return true;
}

static bool walk_table(struct pb_py_src *s, const struct table *t, pb_py_item_fn *visit, void *arg)
{
    uint8_t entries[CHUNK * 24];
    uint64_t values[CHUNK];

    for (uint64_t at = 0; at < t->n; at += CHUNK) {
        size_t n = t->n - at < CHUNK ? (size_t)(t->n - at) : CHUNK;

        if (!pb_py_get(s, t->entries + at * t->stride, entries, n * t->stride))
            return false;
        if (t->values && !pb_py_get(s, t->values + at * 8, values, n * 8))
            return false;
        for (size_t i = 0; i < n; i++) {
            uint64_t key = word_in(entries, i * t->stride + t->key);
            uint64_t value = t->values ? values[i] : word_in(entries, i * t->stride + t->key + 8);

            if (key && value && visit(key, value, arg))
                return true;
        }
    }
    return true;
}

static bool open_dict(struct pb_py_src *s, uint64_t dict, struct table *t)
{
    const struct pb_py_layout *py = s->r->py;
    struct pb_py_obj o;
    uint64_t keys, values;

    memset(t, 0, sizeof *t);
    if (!pb_py_open(s, dict, &o) || o.type->kind != PB_PY_DICT ||
        !pb_py_word(s, &o, py->dict_keys, &keys) || !pb_py_word(s, &o, py->dict_values, &values) ||
        !read_keys(s, keys, t))
        return false;
    return values == 0 || use_values(s, values, t);
}

bool pb_py_dict_walk(struct pb_py_src *s, uint64_t dict, pb_py_item_fn *visit, void *arg)
{
    struct table t;

    return open_dict(s, dict, &t) && walk_table(s, &t, visit, arg);
}

/* The key that a search is for, and the keys that wait to be compared with it. */
struct lookup {
    struct pb_py_src *s;
    const char *name;
    size_t len;
    uint64_t keys[CHUNK], values[CHUNK];
    size_t n;
    uint64_t found;
};

#define NAME_MAX 64

static bool is_name(struct lookup *l, const uint8_t *bytes)
{
    const struct pb_py_layout *py = l->s->r->py;
    unsigned state = pb_py_str_state(py, word_in(bytes, (size_t)py->str_state));
    const struct pb_py_type *type;

    if (word_in(bytes, (size_t)py->str_length) != l->len || (state & 31) != (1 | 8 | 16) ||
        memcmp(bytes + py->str_ascii_size, l->name, l->len) != 0)
        return false;
    type = pb_py_type_at(l->s, word_in(bytes, (size_t)py->ob_type));
    return type && type->kind == PB_PY_STR;
}

/*
 * Compares all waiting keys by one read. A key whose bytes cannot be read as
 * far as the name is long is another key.
 */
static void compare_keys(struct lookup *l)
{
    size_t bytes = (size_t)l->s->r->py->str_ascii_size + l->len;
    uint8_t buf[CHUNK][80 + NAME_MAX];
    struct pb_mem_range ranges[CHUNK];
    struct pb_mem *mem = l->s->r->mem;

    for (size_t i = 0; i < l->n; i++)
        ranges[i] = (struct pb_mem_range){l->keys[i], buf[i], bytes};
    for (size_t at = 0; at < l->n && !l->found && l->s->reads > 0;) {
        size_t got = mem->read(mem, ranges + at, l->n - at);

        l->s->reads--;
        for (size_t i = at; i < at + got && i < l->n && !l->found; i++)
            if (is_name(l, buf[i]))
                l->found = l->values[i];
        at += got + 1;
    }
    l->n = 0;
}

static bool collect_key(uint64_t key, uint64_t value, void *arg)
{
    struct lookup *l = arg;

    if (!pb_py_is_ptr(key))
        return false;
    l->keys[l->n] = key;
    l->values[l->n] = value;
    if (++l->n == CHUNK)
        compare_keys(l);
    return l->found != 0;
}

static bool lookup_init(struct lookup *l, struct pb_py_src *s, const char *name)
{
    memset(l, 0, sizeof *l);
    l->s = s;
    l->name = name;
    l->len = strlen(name);
    return l->len <= NAME_MAX && s->r->py->str_ascii_size <= 80;
}

uint64_t pb_py_dict_find(struct pb_py_src *s, uint64_t dict, const char *key)
{
    struct lookup l;

    if (!lookup_init(&l, s, key))
        return 0;
    pb_py_dict_walk(s, dict, collect_key, &l);
    compare_keys(&l);
    return l.found;
}

/* The dict that an instance has at tp_dictoffset; from the end when that is negative. */
static uint64_t dict_at_offset(struct pb_py_src *s, const struct pb_py_obj *o)
{
    const struct pb_py_type *t = o->type;
    int64_t offset = t->dictoffset;
    uint64_t size, dict;

    if (offset < 0) {
        if (!pb_py_word(s, o, s->r->py->ob_size, &size))
            return 0;
        if ((int64_t)size < 0)
            size = 0 - size;
        if (size > (UINT64_C(1) << 32))
            return 0;
        offset += (t->basicsize + (int64_t)size * t->itemsize + 7) & ~INT64_C(7);
    }
    if (offset <= 0 || offset > (INT64_C(1) << 40) || (offset & 7))
        return 0;
    if (offset < 4096)
        return pb_py_word(s, o, (int)offset, &dict) ? dict : 0;
    return pb_py_get(s, o->addr + (uint64_t)offset, &dict, sizeof dict) ? dict : 0;
}

/*
 * The place of an instance's attributes: a dict, or an array of values whose
 * names are the type's cached keys. Both 0 when there are none.
 */
static void find_attributes(struct pb_py_src *s, const struct pb_py_obj *o, uint64_t *ret_dict,
                            uint64_t *ret_values)
{
    const struct pb_py_layout *py = s->r->py;
    uint64_t slot[2]; /* the word in front of the managed one, and the managed one */
    uint8_t sizes[4];

    *ret_dict = *ret_values = 0;
    if (py->instance == PB_INSTANCE_DICTOFFSET || !(o->type->flags & PB_TP_MANAGED_DICT)) {
        *ret_dict = dict_at_offset(s, o);
        return;
    }
    if (!pb_py_get(s, o->addr + (uint64_t)(int64_t)(py->managed_dict - 8), slot, sizeof slot))
        return;
    if (py->instance == PB_INSTANCE_VALUES_311) {
        *ret_values = slot[0];
        *ret_dict = slot[0] ? 0 : slot[1];
    } else if (py->instance == PB_INSTANCE_VALUES_312) {
        *ret_values = slot[1] & 1 ? slot[1] + 1 : 0;
        *ret_dict = slot[1] & 1 ? 0 : slot[1];
    } else {
        *ret_dict = slot[1];
        if (slot[1] || !(o->type->flags & PB_TP_INLINE_VALUES) ||
            !pb_py_get(s, o->addr + (uint64_t)o->type->basicsize, sizes, sizeof sizes))
            return;
        /* capacity, size, embedded, valid */
        *ret_values = sizes[3] ? o->addr + (uint64_t)o->type->basicsize : 0;
    }
}

bool pb_py_instance_walk(struct pb_py_src *s, const struct pb_py_obj *o, pb_py_item_fn *visit,
                         void *arg)
{
    uint64_t dict, values, keys;
    struct table t = {0};

    find_attributes(s, o, &dict, &values);
    if (dict)
        return pb_py_dict_walk(s, dict, visit, arg);
    if (!values ||
        !pb_py_get(s, o->type->addr + (uint64_t)s->r->py->type_cached_keys, &keys, sizeof keys))
        return false;
    return read_keys(s, keys, &t) && use_values(s, values, &t) && walk_table(s, &t, visit, arg);
}

uint64_t pb_py_instance_find(struct pb_py_src *s, const struct pb_py_obj *o, const char *name)
{
    struct lookup l;

    if (!lookup_init(&l, s, name))
        return 0;
    pb_py_instance_walk(s, o, collect_key, &l);
    compare_keys(&l);
    return l.found;
}

bool pb_py_dict_each(struct pb_py_reader *r, uint64_t dict,
                     bool (*visit)(uint64_t key, uint64_t value, void *arg), void *arg)
{
    struct pb_py_src s = {r, PB_PY_READS_MAX};

    return pb_py_dict_walk(&s, dict, visit, arg);
}

uint64_t pb_py_dict_get(struct pb_py_reader *r, uint64_t dict, const char *key)
{
    struct pb_py_src s = {r, PB_PY_READS_MAX};

    return pb_py_dict_find(&s, dict, key);
}

uint64_t pb_py_instance_get(struct pb_py_reader *r, uint64_t obj, const char *name)
{
    struct pb_py_src s = {r, PB_PY_READS_MAX};
    struct pb_py_obj o;

    return pb_py_open(&s, pb_py_untag(r->py, obj), &o) ? pb_py_instance_find(&s, &o, name) : 0;
}
