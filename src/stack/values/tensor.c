/*
 * torch's tensors: shape, type, device, and the first values of small ones in main memory.
 *
 * Torch tells nobody where its fields are, but a tensor points back at its Python object, and right
 * behind that pointer stand the sizes, the strides and the number of elements, in every torch since
 * 1.13. So the pointer is looked for, and only where all of it fits together is anything shown.
 */
#include <string.h>

#include "stack/values/show.h"

#define DIMS_MAX 64
#define INLINE_DIMS 5 /* more of them stand elsewhere */
#define WORDS 28
#define BACK_MIN 5 /* words in front of the pointer back at the object */
#define BACK_MAX 10
#define VALUES_MAX 6
#define SMALL 64 /* elements */

/* Words behind the pointer back. */
enum { AT_NDIM = 1, AT_SIZES = 2, AT_STRIDES = 7, AT_OFFSET = 12, AT_NUMEL = 13, AT_DTYPE = 14 };

/* With a count of references in one word, as newer versions have it. */
enum { NEW_BACK = 6, NEW_STORAGE = 2, NEW_AUTOGRAD = 3, OLD_BACK = 8, OLD_STORAGE = 3 };

/* Bytes into what autograd knows of it: the operation that made it, and what the user has said. */
enum { AUTOGRAD_FN = 48, AUTOGRAD_FLAGS = 128 };

static const struct {
    const char *name;
    int bytes;
} dtypes[] = {
    [0] = {"uint8", 1},     [1] = {"int8", 1},        [2] = {"int16", 2},
    [3] = {"int32", 4},     [4] = {"int64", 8},       [5] = {"float16", 2},
    [6] = {"float32", 4},   [7] = {"float64", 8},     [8] = {"complex32", 4},
    [9] = {"complex64", 8}, [10] = {"complex128", 16}, [11] = {"bool", 1},
    [12] = {"qint8", 1},    [13] = {"quint8", 1},     [14] = {"qint32", 4},
    [15] = {"bfloat16", 2}, [23] = {"float8_e5m2", 1}, [24] = {"float8_e4m3fn", 1},
    [27] = {"uint16", 2},   [28] = {"uint32", 4},     [29] = {"uint64", 8},
};

static const char *const devices[] = {
    [0] = "cpu", [1] = "cuda", [6] = "hip", [9] = "xla", [12] = "xpu", [13] = "mps",
    [14] = "meta", [15] = "hpu", [19] = "mtia", [20] = "privateuseone",
};

struct tensor {
    uint64_t words[WORDS]; /* its first words */
    size_t back;           /* index of the pointer back */
    int64_t sizes[DIMS_MAX], strides[DIMS_MAX];
    uint32_t ndim;
    int64_t numel, offset;
    unsigned dtype, device;
    int index; /* the device's number; -1: none */
};

static bool read_dims(struct pb_py_show *v, struct tensor *t)
{
    uint64_t ndim = t->words[t->back + AT_NDIM], at = t->words[t->back + AT_SIZES];
    int64_t n = 1;

    if (ndim > DIMS_MAX)
        return false;
    t->ndim = (uint32_t)ndim;
    if (ndim <= INLINE_DIMS) {
        memcpy(t->sizes, &t->words[t->back + AT_SIZES], ndim * 8);
        memcpy(t->strides, &t->words[t->back + AT_STRIDES], ndim * 8);
    } else if (!pb_py_is_ptr(at) || !pb_py_get(&v->src, at, t->sizes, ndim * 8) ||
               !pb_py_get(&v->src, at + ndim * 8, t->strides, ndim * 8)) {
        return false;
    }
    for (uint32_t i = 0; i < t->ndim; i++)
        if (t->sizes[i] < 0 || __builtin_mul_overflow(n, t->sizes[i], &n))
            return false;
    t->numel = (int64_t)t->words[t->back + AT_NUMEL];
    t->offset = (int64_t)t->words[t->back + AT_OFFSET];
    return n == t->numel && t->offset >= 0;
}

/* Two bytes of type; kind and number of the device, and that there is one. */
static bool read_kind(struct tensor *t)
{
    uint8_t bytes[8];

    memcpy(bytes, &t->words[t->back + AT_DTYPE], sizeof bytes);
    t->dtype = bytes[0] | (unsigned)bytes[1] << 8;
    t->device = bytes[2];
    t->index = (int8_t)bytes[3];
    return bytes[4] == 1 && t->dtype < sizeof dtypes / sizeof *dtypes && dtypes[t->dtype].name &&
           t->device < sizeof devices / sizeof *devices && devices[t->device] && t->index >= -1;
}

static bool read_at(struct pb_py_show *v, uint64_t object, uint64_t at, struct tensor *t)
{
    if (!pb_py_is_ptr(at) || !pb_py_get(&v->src, at, t->words, sizeof t->words))
        return false;
    for (t->back = BACK_MIN; t->back <= BACK_MAX; t->back++)
        if ((t->words[t->back] & ~UINT64_C(7)) == object && read_dims(v, t) && read_kind(t))
            return true;
    return false;
}

/* The Python object has a pointer to it, in older versions behind a flag. */
static bool read_tensor(struct pb_py_show *v, const struct pb_py_obj *o, struct tensor *t)
{
    int head = v->src.r->py->ob_head;
    uint64_t at;

    for (int i = 0; i < 2; i++)
        if (pb_py_word(&v->src, o, head + i * 8, &at) && read_at(v, o->addr, at, t))
            return true;
    return false;
}

static bool requires_grad(struct pb_py_show *v, const struct tensor *t)
{
    uint64_t at = t->words[NEW_AUTOGRAD], made_by;
    uint8_t flags[3];

    if (t->back != NEW_BACK || !pb_py_is_ptr(at) ||
        !pb_py_get(&v->src, at + AUTOGRAD_FN, &made_by, sizeof made_by) ||
        !pb_py_get(&v->src, at + AUTOGRAD_FLAGS, flags, sizeof flags) || flags[0] > 1 ||
        flags[1] > 1 || flags[2] > 1)
        return false;
    return flags[0] || pb_py_is_ptr(made_by);
}

/* Where its first element is, in main memory and one behind the other; 0: not so. */
static uint64_t data_of(struct pb_py_show *v, const struct tensor *t)
{
    bool is_new = t->back == NEW_BACK;
    uint64_t at = t->words[is_new ? NEW_STORAGE : OLD_STORAGE], storage[8];
    size_t data = is_new ? 2 : 3, size = data + 4;
    int64_t stride = 1, bytes = dtypes[t->dtype].bytes;

    if (t->device != 0 || (!is_new && t->back != OLD_BACK) || t->numel > SMALL ||
        t->offset > INT32_MAX || !pb_py_is_ptr(at) ||
        !pb_py_get(&v->src, at, storage, sizeof storage))
        return 0;
    for (uint32_t i = t->ndim; i-- > 0; stride *= t->sizes[i])
        if (t->sizes[i] != 1 && t->strides[i] != stride)
            return 0;
    if (storage[size] >= UINT64_C(1) << 48 ||
        storage[size] < (uint64_t)((t->offset + t->numel) * bytes))
        return 0;
    return storage[data] + (uint64_t)(t->offset * bytes);
}

static void put_value(struct pb_buf *out, const struct tensor *t, const uint8_t *bytes)
{
    uint64_t word = 0;

    memcpy(&word, bytes, (size_t)dtypes[t->dtype].bytes);
    if (strcmp(dtypes[t->dtype].name, "bfloat16") == 0)
        pb_py_put_scalar("float32", word << 16, out); /* its upper half */
    else if (!pb_py_put_scalar(dtypes[t->dtype].name, word, out))
        pb_buf_putc(out, '?');
}

static void show_values(struct pb_py_show *v, const struct tensor *t)
{
    int64_t n = t->numel < VALUES_MAX ? t->numel : VALUES_MAX, bytes = dtypes[t->dtype].bytes;
    uint64_t at = data_of(v, t);
    uint8_t data[VALUES_MAX * 8];
    const char *name = dtypes[t->dtype].name;

    if (!at || !n || bytes > 8 || strchr(name, 'q') || strstr(name, "complex") ||
        strcmp(name, "float16") == 0 || strstr(name, "float8") ||
        !pb_py_get(&v->src, at, data, (size_t)(n * bytes)))
        return;
    pb_buf_puts(v->out, " [");
    for (int64_t i = 0; i < n; i++) {
        pb_buf_puts(v->out, i ? ", " : "");
        put_value(v->out, t, data + i * bytes);
    }
    if (n < t->numel)
        pb_buf_printf(v->out, ", … %lld more", (long long)(t->numel - n));
    pb_buf_putc(v->out, ']');
}

bool pb_py_show_tensor(struct pb_py_show *v, const struct pb_py_obj *o)
{
    struct tensor t;

    if (!read_tensor(v, o, &t))
        return false;
    pb_buf_printf(v->out, "<%s shape=(", pb_py_type_full(&v->src, o->type));
    for (uint32_t i = 0; i < t.ndim; i++)
        pb_buf_printf(v->out, "%s%lld", i ? ", " : "", (long long)t.sizes[i]);
    pb_buf_printf(v->out, "%s dtype=%s device=%s", t.ndim == 1 ? ",)" : ")", dtypes[t.dtype].name,
                  devices[t.device]);
    if (t.index >= 0)
        pb_buf_printf(v->out, ":%d", t.index);
    if (requires_grad(v, &t))
        pb_buf_puts(v->out, " requires_grad");
    show_values(v, &t);
    pb_buf_printf(v->out, " at 0x%llx>", (unsigned long long)o->addr);
    return true;
}
