/*
 * Tables and columns of pandas: shape, names of columns, type of the values.
 *
 * A DataFrame has a manager, the manager a list of axes (columns, then rows) among its C fields,
 * and an axis holds its labels in an array of NumPy's, directly or a few objects away. Names of
 * fields have changed between versions, so the array is looked for; what is not found is not shown.
 */
#include <string.h>

#include "stack/values/show.h"

#define BASES_MAX 8
#define NAMES_MAX 6
#define FIELDS_MAX 24 /* C fields of an object that are looked at */
#define DEPTH_MAX 4

/* Behind the head of an array: data, number of dimensions, dimensions. */
enum { ARRAY_DATA = 0, ARRAY_ND = 8, ARRAY_DIMS = 16 };

static bool is_of_pandas(struct pb_py_show *v, const struct pb_py_type *t, const char *name)
{
    for (int i = 0; t && i < BASES_MAX; i++) {
        if (strcmp(pb_py_type_short(t), name) == 0 &&
            strncmp(pb_py_type_full(&v->src, t), "pandas.", 7) == 0)
            return true;
        t = t->flags & PB_TP_HEAPTYPE ? pb_py_type_at(&v->src, t->base) : NULL;
    }
    return false;
}

static bool list_items(struct pb_py_show *v, const struct pb_py_obj *o, uint64_t *items, size_t max,
                       uint64_t *ret_n)
{
    const struct pb_py_layout *py = v->src.r->py;
    uint64_t at;

    return o->type->kind == PB_PY_LIST && pb_py_word(&v->src, o, py->ob_size, ret_n) &&
           *ret_n > 0 && *ret_n < (UINT64_C(1) << 40) &&
           pb_py_word(&v->src, o, py->list_items, &at) &&
           pb_py_get(&v->src, at, items, (*ret_n < max ? (size_t)*ret_n : max) * 8);
}

/* The first C field of an object for which a test holds. */
static bool find_field(struct pb_py_show *v, const struct pb_py_obj *o,
                       bool (*test)(struct pb_py_show *, const struct pb_py_obj *),
                       struct pb_py_obj *ret)
{
    int head = v->src.r->py->ob_head;

    for (int at = head; at < o->type->basicsize && at < head + FIELDS_MAX * 8; at += 8) {
        uint64_t addr;

        if (pb_py_word(&v->src, o, at, &addr) && pb_py_is_ptr(addr) &&
            pb_py_open(&v->src, addr, ret) && test(v, ret))
            return true;
    }
    return false;
}

static bool is_array(struct pb_py_show *v, const struct pb_py_obj *o)
{
    (void)v;
    return o->type->kind == PB_PY_NDARRAY;
}

/* A list of one or two indexes. */
static bool is_axes(struct pb_py_show *v, const struct pb_py_obj *o)
{
    struct pb_py_obj first;
    uint64_t items[2], n;

    return o->type->exact && list_items(v, o, items, 2, &n) && n <= 2 &&
           pb_py_open(&v->src, items[0], &first) && is_of_pandas(v, first.type, "Index");
}

/* The array of NumPy's in which an index or a column holds its values. */
static bool find_array(struct pb_py_show *v, uint64_t addr, int depth, struct pb_py_obj *ret)
{
    static const char *const names[] = {"_data", "_ndarray", "_codes", "values"};
    struct pb_py_obj o;
    uint64_t item, n;

    if (depth == DEPTH_MAX || !pb_py_open(&v->src, addr, &o))
        return false;
    if (is_array(v, &o)) {
        *ret = o;
        return true;
    }
    if (list_items(v, &o, &item, 1, &n))
        return find_array(v, item, depth + 1, ret);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t inner = pb_py_instance_find(&v->src, &o, names[i]);

        if (inner && find_array(v, inner, depth + 1, ret))
            return true;
    }
    return find_field(v, &o, is_array, ret);
}

static bool read_int(struct pb_py_show *v, uint64_t addr, int64_t *ret)
{
    struct pb_py_obj o;

    return pb_py_open(&v->src, addr, &o) && pb_py_int_of(&v->src, &o, ret);
}

/* How long a range object is. */
static bool range_length(struct pb_py_show *v, uint64_t addr, int64_t *ret)
{
    int head = v->src.r->py->ob_head;
    struct pb_py_obj o;
    uint64_t length; /* behind start, stop and step */

    return pb_py_open(&v->src, addr, &o) && o.type->kind == PB_PY_RANGE &&
           pb_py_word(&v->src, &o, head + 24, &length) && read_int(v, length, ret);
}

static bool array_length(struct pb_py_show *v, const struct pb_py_obj *array, int64_t *ret)
{
    int head = v->src.r->py->ob_head;
    uint64_t nd, dims, n;

    if (!pb_py_word(&v->src, array, head + ARRAY_ND, &nd) || (uint32_t)nd == 0 ||
        !pb_py_word(&v->src, array, head + ARRAY_DIMS, &dims) ||
        !pb_py_get(&v->src, dims, &n, sizeof n))
        return false;
    *ret = (int64_t)n;
    return *ret >= 0;
}

static bool index_length(struct pb_py_show *v, uint64_t index, int64_t *ret)
{
    struct pb_py_obj o, array;
    uint64_t range;

    if (!pb_py_open(&v->src, index, &o))
        return false;
    range = pb_py_instance_find(&v->src, &o, "_range");
    if (range)
        return range_length(v, range, ret);
    return find_array(v, index, 0, &array) && array_length(v, &array, ret);
}

/* The first labels of an index whose array holds objects. */
static void show_names(struct pb_py_show *v, uint64_t index, int64_t total)
{
    int head = v->src.r->py->ob_head;
    uint64_t data, items[NAMES_MAX];
    int64_t n = total < NAMES_MAX ? total : NAMES_MAX;
    struct pb_py_obj array, first;

    if (n <= 0 || !find_array(v, index, 0, &array) ||
        !pb_py_word(&v->src, &array, head + ARRAY_DATA, &data) ||
        !pb_py_get(&v->src, data, items, (size_t)n * 8) || !pb_py_is_ptr(items[0]) ||
        !pb_py_open(&v->src, items[0], &first) || first.type->kind != PB_PY_STR)
        return;
    pb_buf_puts(v->out, " columns=[");
    for (int64_t i = 0; i < n; i++) {
        pb_buf_puts(v->out, i ? ", " : "");
        pb_py_show_value(v, items[i]);
    }
    if (n < total)
        pb_buf_printf(v->out, ", … %lld more", (long long)(total - n));
    pb_buf_putc(v->out, ']');
}

/* The manager's axes: one for a Series, columns and rows for a DataFrame. */
static uint64_t read_axes(struct pb_py_show *v, const struct pb_py_obj *o, uint64_t axes[2])
{
    uint64_t manager = pb_py_instance_find(&v->src, o, "_mgr"), n = 0, list;
    struct pb_py_obj m, found;

    if (!manager)
        manager = pb_py_instance_find(&v->src, o, "_data");
    if (!manager || !pb_py_open(&v->src, manager, &m))
        return 0;
    list = pb_py_instance_find(&v->src, &m, "axes");
    if (list ? !pb_py_open(&v->src, list, &found) || !is_axes(v, &found)
             : !find_field(v, &m, is_axes, &found))
        return 0;
    return list_items(v, &found, axes, 2, &n) && n <= 2 ? n : 0;
}

bool pb_py_show_pandas(struct pb_py_show *v, const struct pb_py_obj *o)
{
    bool is_table = is_of_pandas(v, o->type, "DataFrame");
    uint64_t axes[2], n;
    int64_t rows, columns = 0;

    if (!is_table && !is_of_pandas(v, o->type, "Series"))
        return false;
    n = read_axes(v, o, axes);
    if (n != (is_table ? 2 : 1) || !index_length(v, axes[n - 1], &rows) ||
        (is_table && !index_length(v, axes[0], &columns)))
        return false;
    pb_buf_printf(v->out, "<%s shape=(%lld,", pb_py_type_full(&v->src, o->type), (long long)rows);
    if (is_table)
        pb_buf_printf(v->out, " %lld", (long long)columns);
    pb_buf_putc(v->out, ')');
    if (is_table)
        show_names(v, axes[0], columns);
    pb_buf_printf(v->out, " at 0x%llx>", (unsigned long long)o->addr);
    return true;
}
