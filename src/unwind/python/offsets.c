/*
 * The layout of a CPython that describes itself (3.13 and later).
 *
 * The description is read out of another process, so each number is checked
 * against the size of the struct that it points into, and a few numbers that
 * cannot be otherwise prove that the positions are the right ones.
 */
#include <string.h>

#include "unwind/python/layout.h"

enum minor { V313, V314, V315, MINORS };

static const char cookie[8] = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};

/* Positions that only this file needs, per minor version. */
struct positions {
    int total;       /* bytes of the description */
    int object_size; /* sizeof(PyObject) */
    int gc, gc_collecting, gc_frame; /* gc_frame: PB_NONE where it is not told */
    int gil, gil_locked, gil_holder; /* in the interpreter */
    int interp_size;
};

static const struct positions positions[MINORS] = {
    [V313] = {584, 352, 80, 576, PB_NONE, 120, 136, 144, 48},
    [V314] = {760, 400, 88, 656, PB_NONE, 128, 144, 152, 48},
    [V315] = {840, 456, 88, 712, 720, 128, 144, 152, 48},
};

/* Where a field of the layout comes from. */
struct entry {
    const char *name;
    size_t field;
    int at[MINORS], size_at[MINORS];
};

static const struct entry entries[] = {
#define ENTRY(f, at313, at314, at315, size313, size314, size315)                                   \
    {#f, offsetof(struct pb_py_layout, f), {at313, at314, at315}, {size313, size314, size315}},
#define FIXED(f, v313, v314, v315)
#include "unwind/python/offsets.def"
};

struct fixed {
    size_t field;
    int value[MINORS];
};

static const struct fixed fixed[] = {
#define ENTRY(f, at313, at314, at315, size313, size314, size315)
#define FIXED(f, v313, v314, v315) {offsetof(struct pb_py_layout, f), {v313, v314, v315}},
#include "unwind/python/offsets.def"
};

/* The largest struct, the interpreter, has some hundred kilobytes. */
#define MAX_STRUCT (16u << 20)

static uint64_t word_at(const uint8_t *bytes, int pos)
{
    uint64_t v;

    memcpy(&v, bytes + pos, sizeof v);
    return v;
}

static void set_field(struct pb_py_layout *l, size_t field, int value)
{
    memcpy((char *)l + field, &value, sizeof value);
}

static int read_entries(struct pb_py_layout *l, const uint8_t *bytes, enum minor m,
                        struct pb_err *err)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const struct entry *e = &entries[i];
        uint64_t size, value;

        if (e->at[m] == PB_NONE) {
            set_field(l, e->field, PB_NONE);
            continue;
        }
        size = word_at(bytes, e->size_at[m]);
        value = word_at(bytes, e->at[m]);
        /* The characters of an ASCII str begin where its struct ends: equal is allowed. */
        if (size > MAX_STRUCT || value > size)
            return pb_err_set(err, PB_FAIL, "debug offsets: %s is %llu in a struct of %llu bytes",
                              e->name, (unsigned long long)value, (unsigned long long)size);
        set_field(l, e->field, (int)value);
    }
    return 0;
}

static int read_derived(struct pb_py_layout *l, const uint8_t *bytes, enum minor m,
                        struct pb_err *err)
{
    const struct positions *p = &positions[m];
    uint64_t interp = word_at(bytes, p->interp_size);
    uint64_t gc = word_at(bytes, p->gc) + word_at(bytes, p->gc_collecting);
    uint64_t gil = word_at(bytes, p->gil);
    uint64_t locked = word_at(bytes, p->gil_locked), holder = word_at(bytes, p->gil_holder);

    if (gc > interp || locked > interp || holder > interp || gil > locked || gil > holder)
        return pb_err_set(err, PB_FAIL, "debug offsets: the GIL is not inside the interpreter");
    l->interp_gc_collecting = (int)gc;
    l->interp_gc_frame = PB_NONE;
    if (p->gc_frame != PB_NONE) {
        uint64_t frame = word_at(bytes, p->gc) + word_at(bytes, p->gc_frame);

        if (frame > interp)
            return pb_err_set(err, PB_FAIL, "debug offsets: no collector in the interpreter");
        l->interp_gc_frame = (int)frame;
    }
    l->gil_locked = (int)(locked - gil);
    l->gil_holder = (int)(holder - gil);
    l->gil_enabled = l->free_threaded ? 0 : PB_NONE;
    if (m == V313)
        l->interp_threads_main = l->interp_threads_head + 8;
    if (!l->free_threaded)
        l->f_tlbc_index = l->co_tlbc = PB_NONE;
    return 0;
}

/* Between them stand who holds and, from 3.15 on, who wants the GIL. */
static const int state_behind_status[MINORS] = {[V313] = 8, [V314] = 12, [V315] = 16};

static void set_constants(struct pb_py_layout *l, enum minor m)
{
    int shift = l->ob_head - 16;

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        set_field(l, fixed[i].field, fixed[i].value[m] + shift);
    l->runtime_tstate_current = PB_NONE;
    l->runtime_gil_holder = l->runtime_gil_locked = l->runtime_gc_collecting = PB_NONE;
    l->ts_cframe = l->cframe_current = l->cframe_previous = PB_NONE;
    l->ts_id = l->ts_chunk - 8;
    l->ts_state = l->ts_status + state_behind_status[m];
    l->frame_size = l->f_localsplus;
    l->f_is_entry = PB_NONE;
    l->f_instr_is_pointer = true;
    l->f_instr_is_next = true;
    l->lasti_scale = 1;
    l->owner_generator = 1;
    l->owner_shim = 3;
    l->owner_shim2 = m == V313 ? PB_NONE : 4;
    l->tagged = m >= V314;
    l->co_size = l->co_code;
    l->co_cellvars = l->co_freevars = PB_NONE;
    l->lines = PB_LINES_TABLE_311;
    l->long_is_tagged = true;
    l->str_compact_size = l->str_ascii_size + 16;
    l->dict = PB_DICT_311;
    l->instance = PB_INSTANCE_INLINE_313;
    l->managed_dict = l->free_threaded ? -8 : -24;
}

/* Facts of 3.13 to 3.15: wrong ones mean that the description is laid out otherwise. */
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
    struct pb_py_layout l = {0};
    unsigned major, minor;
    enum minor m;

    if (len < 24 || memcmp(bytes, cookie, sizeof cookie) != 0)
        return pb_err_set(err, PB_FAIL, "no debug offsets at _PyRuntime");
    major = (unsigned)(word_at(bytes, 8) >> 24);
    minor = (unsigned)(word_at(bytes, 8) >> 16) & 255;
    if (major != 3 || minor < 13 || minor > 15)
        return pb_err_set(err, PB_FAIL, "Python %u.%u is not known to this version of probing",
                          major, minor);
    m = (enum minor)(minor - 13);
    if (len < (size_t)positions[m].total)
        return pb_err_set(err, PB_FAIL, "debug offsets of Python %u.%u are cut off", major, minor);
    l.major = (int)major;
    l.minor = (int)minor;
    l.free_threaded = word_at(bytes, 16) != 0;
    l.ob_head = word_at(bytes, positions[m].object_size) == 32 ? 32 : 16;
    if (read_entries(&l, bytes, m, err) < 0 || read_derived(&l, bytes, m, err) < 0)
        return -1;
    set_constants(&l, m);
    if (!is_plausible(&l))
        return pb_err_set(err, PB_FAIL, "debug offsets of this Python %u.%u are laid out otherwise",
                          major, minor);
    *ret = l;
    return 0;
}
