/* NumPy's arrays and scalars, whose structs have not changed since its 1.7. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/number.h"
#include "stack/values/show.h"

#define DIMS_MAX 64
#define SMALL 64 /* elements */
#define VALUES_MAX 6

/* Behind the head of an array: data, number of dimensions, dimensions, strides, base, dtype. */
enum array_field { ARRAY_ND = 8, ARRAY_DIMS = 16, ARRAY_STRIDES = 24, ARRAY_DTYPE = 40 };

/* The dtype's first field is the type of its scalars, `numpy.float32`. */
static const char *dtype_name(struct pb_py_show *v, const struct pb_py_obj *o)
{
    int head = v->src.r->py->ob_head;
    const struct pb_py_type *scalar;
    struct pb_py_obj dtype;
    uint64_t addr;

    if (!pb_py_word(&v->src, o, head + ARRAY_DTYPE, &addr) || !pb_py_open(&v->src, addr, &dtype) ||
        !pb_py_word(&v->src, &dtype, head, &addr))
        return NULL;
    scalar = pb_py_type_at(&v->src, addr);
    return scalar ? pb_py_type_short(scalar) : NULL;
}

/* The double with the fewest digits that still reads back as the float. */
static double widen(float f)
{
    char text[PB_NUMBER_TEXT];

    pb_number_shortest((double)f, true, 'g', text);
    return strtod(text, NULL);
}

/* The value of a scalar stands behind the head, in the machine's own format. */
bool pb_py_put_scalar(const char *name, uint64_t word, struct pb_buf *out)
{
    static const struct {
        const char *name;
        int bits;
        bool is_signed;
    } ints[] = {
        {"int64", 64, true},   {"int32", 32, true},   {"int16", 16, true},   {"int8", 8, true},
        {"uint64", 64, false}, {"uint32", 32, false}, {"uint16", 16, false}, {"uint8", 8, false},
    };
    double d;
    float f;

    if (strcmp(name, "float64") == 0) {
        memcpy(&d, &word, sizeof d);
        pb_py_float_repr(d, out);
        return true;
    }
    if (strcmp(name, "float32") == 0) {
        memcpy(&f, &word, sizeof f);
        pb_py_float_repr(widen(f), out);
        return true;
    }
    if (strcmp(name, "bool_") == 0 || strcmp(name, "bool") == 0) {
        pb_buf_puts(out, word & 255 ? "True" : "False");
        return true;
    }
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        int unused = 64 - ints[i].bits;

        if (strcmp(name, ints[i].name) != 0)
            continue;
        if (ints[i].is_signed)
            pb_buf_printf(out, "%lld", (long long)((int64_t)(word << unused) >> unused));
        else
            pb_buf_printf(out, "%llu", (unsigned long long)(word << unused >> unused));
        return true;
    }
    return false;
}

static size_t item_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        size_t bytes;
    } list[] = {
        {"float64", 8}, {"float32", 4}, {"int64", 8},  {"int32", 4},  {"int16", 2}, {"int8", 1},
        {"uint64", 8},  {"uint32", 4},  {"uint16", 2}, {"uint8", 1},  {"bool", 1},  {"bool_", 1},
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(dtype, list[i].name) == 0)
            return list[i].bytes;
    return 0;
}

/* The first elements of a small array whose elements stand one behind the other. */
static void show_elements(struct pb_py_show *v, const struct pb_py_obj *o, const uint64_t *dims,
                          uint32_t nd, const char *dtype)
{
    int head = v->src.r->py->ob_head;
    size_t bytes = item_bytes(dtype), shown;
    uint64_t data, at, strides[DIMS_MAX], numel = 1, word;
    uint8_t items[VALUES_MAX * 8];

    if (!bytes || !pb_py_word(&v->src, o, head, &data) ||
        !pb_py_word(&v->src, o, head + ARRAY_STRIDES, &at) ||
        (nd && !pb_py_get(&v->src, at, strides, nd * 8)))
        return;
    for (uint32_t i = nd; i-- > 0; numel *= dims[i])
        if (dims[i] > SMALL || numel > SMALL || (dims[i] != 1 && strides[i] != numel * bytes))
            return;
    shown = numel < VALUES_MAX ? numel : VALUES_MAX;
    if (!numel || numel > SMALL || !pb_py_get(&v->src, data, items, shown * bytes))
        return;
    pb_buf_puts(v->out, " [");
    for (size_t i = 0; i < shown; i++) {
        word = 0;
        memcpy(&word, items + i * bytes, bytes);
        pb_buf_puts(v->out, i ? ", " : "");
        pb_py_put_scalar(dtype, word, v->out);
    }
    if (shown < numel)
        pb_buf_printf(v->out, ", … %llu more", (unsigned long long)(numel - shown));
    pb_buf_putc(v->out, ']');
}

static void show_array(struct pb_py_show *v, const struct pb_py_obj *o)
{
    int head = v->src.r->py->ob_head;
    const char *dtype = dtype_name(v, o);
    uint64_t nd, dims_at, dims[DIMS_MAX];
    bool known = false;

    pb_buf_printf(v->out, "<%s", pb_py_type_full(&v->src, o->type));
    if (pb_py_word(&v->src, o, head + ARRAY_ND, &nd) && (uint32_t)nd <= DIMS_MAX &&
        pb_py_word(&v->src, o, head + ARRAY_DIMS, &dims_at) &&
        ((uint32_t)nd == 0 || pb_py_get(&v->src, dims_at, dims, (uint32_t)nd * 8))) {
        known = true;
        pb_buf_puts(v->out, " shape=(");
        for (uint32_t i = 0; i < (uint32_t)nd; i++)
            pb_buf_printf(v->out, "%s%lld", i ? ", " : "", (long long)dims[i]);
        pb_buf_puts(v->out, (uint32_t)nd == 1 ? ",)" : ")");
    }
    if (dtype)
        pb_buf_printf(v->out, " dtype=%s", dtype);
    if (dtype && known)
        show_elements(v, o, dims, (uint32_t)nd, dtype);
    pb_buf_printf(v->out, " at 0x%llx>", (unsigned long long)o->addr);
}

void pb_py_show_numpy(struct pb_py_show *v, const struct pb_py_obj *o)
{
    struct pb_buf text = PB_BUF_INIT;
    uint64_t word;

    if (o->type->kind == PB_PY_NDARRAY)
        show_array(v, o);
    else if (pb_py_word(&v->src, o, v->src.r->py->ob_head, &word) &&
             pb_py_put_scalar(pb_py_type_short(o->type), word, &text))
        pb_buf_printf(v->out, "%s(%s)", o->type->name, text.data);
    else
        pb_buf_printf(v->out, "<%s at 0x%llx>", o->type->name, (unsigned long long)o->addr);
    pb_buf_finish(&text);
}
