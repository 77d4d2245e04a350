#include "agent/comm/tensor.h"

#include <pthread.h>
#include <string.h>

#include "agent/arch/hidden_return.h"
#include "agent/collectors/collect.h"
#include "agent/comm/comm.h"

#define TENSOR_WORDS 48 /* words of a tensor that are examined */
#define OBJECT_WORDS 5  /* words of Python's object of a tensor */
#define OBJECT_HEAD 2   /* words of every Python object */
#define LIST_MAX 4096

/* c10::IValue, the same from torch 1.13 to 2.13. */
struct value {
    uint64_t payload;
    uint32_t tag, pad;
};

/* c10::ScalarType: a number in files that programs save, so it does not change. */
static const struct {
    const char *name;
    int bytes;
} types[] = {
    [0] = {"uint8", 1},           [1] = {"int8", 1},         [2] = {"int16", 2},
    [3] = {"int32", 4},           [4] = {"int64", 8},        [5] = {"float16", 2},
    [6] = {"float32", 4},         [7] = {"float64", 8},      [8] = {"complex32", 4},
    [9] = {"complex64", 8},       [10] = {"complex128", 16}, [11] = {"bool", 1},
    [15] = {"bfloat16", 2},       [23] = {"float8_e5m2", 1}, [24] = {"float8_e4m3fn", 1},
    [25] = {"float8_e5m2fnuz", 1}, [26] = {"float8_e4m3fnuz", 1},
    [27] = {"uint16", 2},         [28] = {"uint32", 4},      [29] = {"uint64", 8},
};
#define NTYPES (sizeof types / sizeof *types)

/* A trial: a tensor of a shape whose product is none of its parts. */
struct trial {
    const char *dtype;
    int number, rows, columns;
    const char *device;
    int device_number; /* c10::DeviceType */
};

static const struct trial trials[] = {
    {"float32", 6, 3, 7, "cpu", 0},
    {"int64", 4, 5, 11, "cpu", 0},
    {"uint8", 0, 13, 17, "cpu", 0},
    {"bool", 11, 19, 2, "cpu", 0},
};
#define NTRIALS (sizeof trials / sizeof *trials)
static const struct trial elsewhere = {"bfloat16", 15, 23, 29, "meta", 14};

/* Positions that agreed so far. */
struct candidates {
    bool counts[TENSOR_WORDS], dtypes[TENSOR_WORDS * 4], devices[TENSOR_WORDS * 8];
    bool objects[OBJECT_WORDS];
};

static bool read_own(const struct pb_comm *c, void *to, uintptr_t from, size_t len)
{
    return pb_comm_read(c, to, from, len) == (int64_t)len;
}

/* A list, and its length behind it, with our tensor as the first value. */
static bool is_list(struct pb_comm *c, const uint64_t *words)
{
    struct pb_comm_tensor *x = &c->tensor;
    struct value v;

    if (words[1] == 0 || words[1] >= 16 || !read_own(c, &v, words[0], sizeof v) ||
        v.payload != x->tensor)
        return false;
    if (!x->trials)
        x->tag = v.tag;
    return v.tag == x->tag;
}

/*
 * Torch's call during a trial. The first event is the one that we asked for; operations within it
 * may have the tensor elsewhere.
 */
void pb_comm_tensor_tried(const void *record, void **ret);
void pb_comm_tensor_tried(const void *record, void **ret)
{
    struct pb_comm *c = pb_comm_state(pb_self());
    struct pb_comm_tensor *x = &c->tensor;
    uint64_t words[PB_COMM_EVENT_WORDS + 1];
    bool fits[PB_COMM_EVENT_WORDS], any = false;

    *ret = NULL;
    if (x->thread != (uintptr_t)pthread_self() ||
        !read_own(c, words, (uintptr_t)record, sizeof words))
        return;
    for (int i = 0; i < PB_COMM_EVENT_WORDS; i++)
        any |= fits[i] = is_list(c, words + i);
    for (int i = 0; any && i < PB_COMM_EVENT_WORDS; i++)
        x->words[i] &= fits[i];
    x->trials += any;
    if (any)
        x->thread = 0;
}
PB_HIDDEN_RETURN(pb_comm_tensor_start, pb_comm_tensor_tried)

static void tried_out(const void *record, void *context)
{
    (void)record;
    (void)context;
}

static struct _object *make_tensor(struct pb_comm *c, const struct trial *t)
{
    const struct pb_py *py = &c->self->py;
    struct _object *torch = pb_collect_module(c->self, "torch");
    struct _object *dtype = torch ? py->PyObject_GetAttrString(torch, t->dtype) : NULL;
    struct _object *empty = torch ? py->PyObject_GetAttrString(torch, "empty") : NULL;
    struct _object *args = py->Py_BuildValue("((ii))", t->rows, t->columns);
    struct _object *kwargs =
        dtype ? py->Py_BuildValue("{sOss}", "dtype", dtype, "device", t->device) : NULL;
    struct _object *tensor = empty && args && kwargs ? py->PyObject_Call(empty, args, kwargs)
                                                     : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(kwargs);
    py->Py_DecRef(args);
    py->Py_DecRef(empty);
    py->Py_DecRef(dtype);
    py->Py_DecRef(torch);
    return tensor;
}

/* Words that can be the number of elements, half words the type, bytes the kind of device. */
static bool compare(const struct pb_comm *c, const struct _object *object, uintptr_t tensor,
                    const struct trial *t, struct candidates *p)
{
    uint64_t words[TENSOR_WORDS], own[OBJECT_WORDS];
    uint16_t halves[TENSOR_WORDS * 4];
    uint8_t bytes[TENSOR_WORDS * 8];
    uint64_t count = (uint64_t)t->rows * (uint64_t)t->columns;

    if (!read_own(c, words, tensor, sizeof words) ||
        !read_own(c, own, (uintptr_t)object, sizeof own))
        return false;
    memcpy(halves, words, sizeof halves);
    memcpy(bytes, words, sizeof bytes);
    for (int i = 0; i < TENSOR_WORDS; i++)
        p->counts[i] &= words[i] == count;
    for (int i = 0; i < TENSOR_WORDS * 4; i++)
        p->dtypes[i] &= halves[i] == t->number;
    for (int i = 0; i < TENSOR_WORDS * 8; i++)
        p->devices[i] &= bytes[i] == t->device_number;
    for (int i = 0; i < OBJECT_WORDS; i++)
        p->objects[i] &= i >= OBJECT_HEAD && own[i] == tensor;
    return true;
}

static int only_one(const bool *v, int n)
{
    int at = -1;

    for (int i = 0; i < n; i++) {
        if (v[i] && at >= 0)
            return -1;
        if (v[i])
            at = i;
    }
    return at;
}

/* GIL: a tensor that we know. */
static bool look_at(struct pb_comm *c, const struct trial *t, struct candidates *p)
{
    const struct pb_py *py = &c->self->py;
    struct _object *tensor = make_tensor(c, t);
    int64_t address = tensor ? pb_py_int(py, tensor, "_cdata") : -1;
    bool good = address > 0 && compare(c, tensor, (uintptr_t)address, t, p);

    py->Py_DecRef(tensor);
    return good;
}

/* GIL: one operation on such a tensor. */
static bool try_one(struct pb_comm *c, const struct trial *t, struct candidates *p)
{
    const struct pb_py *py = &c->self->py;
    struct pb_comm_tensor *x = &c->tensor;
    struct _object *tensor = make_tensor(c, t);
    int64_t address = tensor ? pb_py_int(py, tensor, "_cdata") : -1;
    struct _object *method = tensor ? py->PyObject_GetAttrString(tensor, "clone") : NULL;
    struct _object *made = NULL;
    int before = x->trials;
    bool good = address > 0 && method && compare(c, tensor, (uintptr_t)address, t, p);

    if (good) {
        x->tensor = (uintptr_t)address;
        x->thread = (uintptr_t)pthread_self();
        made = py->PyObject_CallFunction(method, NULL);
        x->thread = 0;
    }
    py->PyErr_Clear();
    py->Py_DecRef(made);
    py->Py_DecRef(method);
    py->Py_DecRef(tensor);
    return good && x->trials > before;
}

/* GIL: the classes whose objects are known; those of others may answer as they like. */
static void find_classes(struct pb_comm *c)
{
    static const char *const names[2][2] = {{"torch", "Tensor"},
                                            {"torch.nn.parameter", "Parameter"}};

    for (int i = 0; i < 2; i++) {
        struct _object *module = pb_collect_module(c->self, names[i][0]);

        if (module)
            c->tensor.types[i] = c->self->py.PyObject_GetAttrString(module, names[i][1]);
        c->self->py.PyErr_Clear();
        c->self->py.Py_DecRef(module);
    }
}

void pb_comm_tensor_learn(struct pb_comm *c)
{
    struct pb_comm_tensor *x = &c->tensor;
    struct pb_record_callback ours = {.start = pb_comm_tensor_start, .end = tried_out,
                                    .probability = 1};
    struct candidates p;
    bool good = true;
    uint64_t callback;

    for (size_t i = 0; i < NTYPES; i++)
        x->names[i] = types[i].name ? pb_comm_name(c, types[i].name, strlen(types[i].name))
                                    : PB_NULL_NAME;
    if (x->trials)
        return;
    x->inputs = x->count = x->dtype = x->device = x->object = -1;
    memset(x->words, 1, sizeof x->words);
    memset(&p, 1, sizeof p);
    ours.scopes[PB_RECORD_FUNCTION] = 1;
    ours.needs[0] = 1;
    callback = c->events.record.add(ours);
    for (size_t i = 0; good && i < NTRIALS; i++)
        good = try_one(c, &trials[i], &p);
    c->events.record.remove(callback);
    x->count = only_one(p.counts, TENSOR_WORDS);
    x->dtype = only_one(p.dtypes, TENSOR_WORDS * 4);
    if (good && x->count >= 0 && x->dtype >= 0) {
        x->inputs = only_one(x->words, PB_COMM_EVENT_WORDS);
        x->object = look_at(c, &elsewhere, &p) ? only_one(p.objects, OBJECT_WORDS) : -1;
        x->device = only_one(p.devices, TENSOR_WORDS * 8);
        find_classes(c);
    }
    x->trials = -1;
}

/* tensor: the beginning of one, in torch's memory or a copy. */
static bool add_tensor(const struct pb_comm_tensor *x, const void *tensor, int64_t *bytes,
                       unsigned *ret_type)
{
    uint64_t count;
    uint16_t type;

    memcpy(&count, (const uint64_t *)tensor + x->count, sizeof count);
    memcpy(&type, (const uint16_t *)tensor + x->dtype, sizeof type);
    if (type >= NTYPES || !types[type].bytes || count >> 48)
        return false;
    *bytes += (int64_t)count * types[type].bytes;
    *ret_type = type;
    return true;
}

bool pb_comm_tensor_held(const struct pb_comm *c, struct _object *o, int64_t *ret_bytes,
                         uint32_t *ret_dtype, bool *ret_device)
{
    const struct pb_comm_tensor *x = &c->tensor;
    struct _object *class;
    const uint8_t *tensor;
    int64_t bytes = 0;
    unsigned type;

    if (x->trials >= 0 || x->object < 0 || x->device < 0)
        return false;
    class = c->self->py.PyObject_Type(o);
    c->self->py.Py_DecRef(class); /* the object has it */
    if (class != x->types[0] && class != x->types[1])
        return false;
    memcpy(&tensor, (const uintptr_t *)(const void *)o + x->object, sizeof tensor);
    if (!tensor || !add_tensor(x, tensor, &bytes, &type))
        return false;
    *ret_bytes = bytes;
    *ret_dtype = x->names[type];
    *ret_device = tensor[x->device] != 0;
    return true;
}

void pb_comm_tensor_measure(struct pb_comm *c, const void *record, union pb_cell *row)
{
    const struct pb_comm_tensor *x = &c->tensor;
    unsigned type = 0, first = 0;
    uint64_t list[2], words[TENSOR_WORDS];
    int64_t bytes = 0;

    if (x->trials >= 0 || x->inputs < 0 ||
        !read_own(c, list, (uintptr_t)record + (uintptr_t)x->inputs * 8, sizeof list) ||
        list[1] == 0 || list[1] > LIST_MAX)
        return;
    for (uint64_t i = 0; i < list[1]; i++) {
        struct value v;

        if (!read_own(c, &v, list[0] + i * sizeof v, sizeof v) || v.tag != x->tag ||
            !read_own(c, words, v.payload, sizeof words) || !add_tensor(x, words, &bytes, &type))
            return;
        if (i == 0)
            first = type;
    }
    row[PB_COMM_AT_bytes].i = bytes;
    row[PB_COMM_AT_dtype].name = x->names[first];
}
