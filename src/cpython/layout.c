/*
 * layout.c - from the file of a version to a layout.
 *
 * A file is a list of rules, applied in order. To 3.12 they give values; from 3.13 on CPython
 * describes itself at the start of _PyRuntime (_Py_DebugOffsets), and they give positions in that
 * description. It is read out of another process, so each number is checked against the size of
 * the struct that it points into, and a few numbers that cannot be otherwise prove that the
 * positions are the right ones.
 */
#include "cpython/layout.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The structs whose sizes _Py_DebugOffsets gives. */
enum part {
    PART_RUNTIME, PART_INTERP, PART_THREAD, PART_FRAME, PART_CODE, PART_OBJECT, PART_TYPE,
    PART_TUPLE, PART_LIST, PART_DICT, PART_FLOAT, PART_INT, PART_BYTES, PART_STR,
    PARTS,
};

enum kind {
    RULE_END,
    RULE_VALUE,
    RULE_VALUE_FREE_THREADED, /* only in such a build */
    RULE_BEHIND_HEAD,         /* a value that grows with the object's head */
    RULE_NEAR,                /* another field's value, and a distance */
    RULE_TOLD,                /* at a position of the description */
    RULE_TOLD_FREE_THREADED,
    RULE_SUM,                 /* sum of the words at two positions */
    RULE_DIFFERENCE,          /* difference of the words at two positions */
    RULE_PART_SIZE,           /* position of a struct's size */
    RULE_DESCRIPTION,         /* bytes of the description */
};

struct rule {
    enum kind kind;
    const char *name;
    size_t field;
    int a, b, part;
};

struct version {
    int major, minor, micro; /* the first micro version that the file is for */
    enum pb_py_support support;
    const char *loop;
    const struct rule *rules;
};

#define NAMED(field) #field, offsetof(struct pb_py_layout, field)
/* A mutex has 40 bytes on most machines, 48 on aarch64; two of them lie in front of the field. */
#define BEHIND_MUTEXES(at) ((at) + 2 * ((int)sizeof(pthread_mutex_t) - 40))

#define VERSION(major, minor, micro, support, loop)                                                \
    {major, minor, micro, PB_PY_##support, loop, (const struct rule[]){
#define FIELD(field, value) {RULE_VALUE, NAMED(field), value, 0, 0},
#define FLAG(field) {RULE_VALUE, NAMED(field), 1, 0, 0},
#define FREE_THREADED(field, value) {RULE_VALUE_FREE_THREADED, NAMED(field), value, 0, 0},
#define BEHIND_HEAD(field, value) {RULE_BEHIND_HEAD, NAMED(field), value, 0, 0},
#define NEAR(field, other, distance)                                                               \
    {RULE_NEAR, NAMED(field), (int)offsetof(struct pb_py_layout, other), distance, 0},
#define TOLD(field, part, at) {RULE_TOLD, NAMED(field), at, 0, PART_##part},
#define TOLD_FREE_THREADED(field, part, at)                                                        \
    {RULE_TOLD_FREE_THREADED, NAMED(field), at, 0, PART_##part},
#define SUM(field, part, a, b) {RULE_SUM, NAMED(field), a, b, PART_##part},
#define DIFFERENCE(field, part, a, b) {RULE_DIFFERENCE, NAMED(field), a, b, PART_##part},
#define SIZE(part, at) {RULE_PART_SIZE, #part, 0, at, 0, PART_##part},
#define DESCRIPTION(size) {RULE_DESCRIPTION, "", 0, size, 0, 0},
#define END {RULE_END, "", 0, 0, 0, 0}}},

static const struct version versions[] = {
#include "cpython/versions.def"
};

#define COUNT (sizeof versions / sizeof versions[0])

/* The largest struct, the interpreter, has some hundred kilobytes. */
#define MAX_STRUCT (16u << 20)

static const char cookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};

/* A layout being made; bytes NULL: of a version that does not describe itself. */
struct making {
    struct pb_py_layout *l;
    const uint8_t *bytes;
    size_t len;
    int size_at[PARTS];
    struct pb_err *err;
};

/* The last entry that begins at or before the micro version; the newest when that is not known. */
static const struct version *find(int major, int minor, int micro)
{
    const struct version *best = NULL;

    for (size_t i = 0; i < COUNT; i++)
        if (versions[i].major == major && versions[i].minor == minor &&
            (micro < 0 || versions[i].micro <= micro || !best))
            best = &versions[i];
    return best;
}

static bool describes_itself(const struct version *v)
{
    for (const struct rule *r = v->rules; r->kind != RULE_END; r++)
        if (r->kind == RULE_DESCRIPTION)
            return true;
    return false;
}

static uint64_t word_at(const struct making *m, int at)
{
    uint64_t v;

    memcpy(&v, m->bytes + at, sizeof v);
    return v;
}

static int *field_of(struct pb_py_layout *l, size_t field)
{
    return (int *)(void *)((char *)l + field);
}

/* Needs the rule that says how long the description is in front of it. */
static int set_told(const struct making *m, const struct rule *r)
{
    uint64_t size, value;

    if ((size_t)r->a > m->len - 8 || (size_t)r->b > m->len - 8)
        return pb_err_set(m->err, PB_FAIL, "debug offsets: %s is not in them", r->name);
    size = word_at(m, m->size_at[r->part]);
    value = word_at(m, r->a);
    if (r->kind == RULE_SUM)
        value += word_at(m, r->b);
    else if (r->kind == RULE_DIFFERENCE)
        value -= word_at(m, r->b);
    /* The characters of an ASCII str begin where its struct ends: equal is allowed. */
    if (size > MAX_STRUCT || value > size || word_at(m, r->a) > size)
        return pb_err_set(m->err, PB_FAIL, "debug offsets: %s is %llu in a struct of %llu bytes",
                          r->name, (unsigned long long)value, (unsigned long long)size);
    *field_of(m->l, r->field) = (int)value;
    return 0;
}

static int apply(struct making *m, const struct rule *r)
{
    int *field = field_of(m->l, r->field);

    switch (r->kind) {
    case RULE_VALUE_FREE_THREADED:
        if (!m->l->free_threaded)
            break;
        /* fall through */
    case RULE_VALUE:
        *field = r->a;
        break;
    case RULE_BEHIND_HEAD:
        *field = r->a + m->l->ob_head - 16;
        break;
    case RULE_NEAR:
        *field = *field_of(m->l, (size_t)r->a) + r->b;
        break;
    case RULE_TOLD_FREE_THREADED:
        if (!m->l->free_threaded)
            break;
        /* fall through */
    case RULE_TOLD:
    case RULE_SUM:
    case RULE_DIFFERENCE:
        return set_told(m, r);
    case RULE_PART_SIZE:
        m->size_at[r->part] = r->a;
        break;
    case RULE_DESCRIPTION:
        if (m->len < (size_t)r->a)
            return pb_err_set(m->err, PB_FAIL, "debug offsets of Python %d.%d are cut off",
                              m->l->major, m->l->minor);
        break;
    case RULE_END:
        break;
    }
    return 0;
}

static int make(struct making *m, const struct version *v, bool free_threaded)
{
    memset(m->l, 0, sizeof *m->l);
    /* What is not said is not there. */
    memset(m->l, 0xff, offsetof(struct pb_py_layout, major));
    m->l->major = v->major;
    m->l->minor = v->minor;
    m->l->loop = v->loop;
    m->l->free_threaded = free_threaded;
    for (const struct rule *r = v->rules; r->kind != RULE_END; r++)
        if (apply(m, r) < 0)
            return -1;
    return 0;
}

bool pb_py_layout_find(struct pb_py_layout *ret, int major, int minor, int micro)
{
    const struct version *v = find(major, minor, micro);
    struct making m = {.l = ret};

    return v && !describes_itself(v) && make(&m, v, false) == 0;
}

/* Wrong ones mean that the description is laid out otherwise. */
static bool is_plausible(const struct pb_py_layout *l)
{
    int head = l->ob_head;

    return head == (l->free_threaded ? 32 : 16) && l->ob_type == head - 8 && l->ob_size == head &&
           l->long_tag == head && l->float_value == head && l->str_length == head &&
           l->type_name == head + 8 && l->type_flags == head + 152 && l->list_items == head + 8 &&
           l->str_state == head + 16 && l->str_ascii_size == head + 24 && l->ts_next == 8 &&
           l->ts_status >= 24 && l->co_code > l->co_linetable && l->f_localsplus > l->f_owner &&
           l->f_localsplus >= 64 && l->f_localsplus <= 256 && l->co_code <= 1024;
}

int pb_py_layout_from_offsets(struct pb_py_layout *ret, const uint8_t *bytes, size_t len,
                              struct pb_err *err)
{
    struct pb_py_layout l;
    struct making m = {.l = &l, .bytes = bytes, .len = len, .err = err};
    const struct version *v;
    char known[32];
    int major, minor;

    if (len < 24 || memcmp(bytes, cookie, sizeof cookie) != 0)
        return pb_err_set(err, PB_FAIL, "no debug offsets at _PyRuntime");
    major = (int)(word_at(&m, 8) >> 24 & 0xff);
    minor = (int)(word_at(&m, 8) >> 16 & 0xff);
    v = find(major, minor, -1);
    if (!v || !describes_itself(v))
        return pb_err_set(err, PB_FAIL,
                          "Python %d.%d is not known to this version of probing, only %s", major,
                          minor, pb_py_supported(known, sizeof known));
    if (make(&m, v, word_at(&m, 16) != 0) < 0)
        return -1;
    if (!is_plausible(&l))
        return pb_err_set(err, PB_FAIL, "debug offsets of this Python %d.%d are laid out otherwise",
                          major, minor);
    *ret = l;
    return 0;
}

struct pb_py_api pb_py_api_of(int major, int minor)
{
    const struct version *v = find(major, minor, -1), *newest = &versions[COUNT - 1];
    struct pb_py_layout l = {0};

    if (!v && major == newest->major && minor > newest->minor)
        v = newest;
    for (const struct rule *r = v ? v->rules : NULL; r && r->kind != RULE_END; r++)
        if (r->kind == RULE_VALUE && r->field >= offsetof(struct pb_py_layout, api))
            *field_of(&l, r->field) = r->a;
    return l.api;
}

enum pb_py_support pb_py_support(int major, int minor)
{
    const struct version *v = find(major, minor, -1);

    return v ? v->support : PB_PY_UNKNOWN;
}

const char *pb_py_supported(char *buf, size_t cap)
{
    snprintf(buf, cap, "%d.%d to %d.%d", versions[0].major, versions[0].minor,
             versions[COUNT - 1].major, versions[COUNT - 1].minor);
    return buf;
}
