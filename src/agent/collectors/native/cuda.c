#include "agent/collectors/native/cuda.h"

#include <string.h>

#include "store/writer.h"

/* Of the driver's interface. */
#define EVENT_NO_TIMING 2u
#define VALUE_BYTES 8
#define AGAIN_NS 1000000000u

static const unsigned char sizes[PB_CUDA_KINDS] = {4, 8, 2, 2};

static double decode_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023, v;

    if (exponent == 31)
        v = fraction > 0 ? (double)__builtin_nanf("") : (double)__builtin_inff();
    else if (exponent == 0)
        v = fraction / (1 << 24);
    else
        v = (1 + fraction / 1024) * (exponent >= 15 ? (double)(1 << (exponent - 15))
                                                    : 1.0 / (1 << (15 - exponent)));
    return h >> 15 ? -v : v;
}

double pb_cuda_decode(const unsigned char *bytes, enum pb_cuda_kind kind)
{
    uint32_t word;
    uint16_t half;
    double d;
    float f;

    switch (kind) {
    case PB_CUDA_F64:
        memcpy(&d, bytes, sizeof d);
        return d;
    case PB_CUDA_F16:
        memcpy(&half, bytes, sizeof half);
        return decode_half(half);
    case PB_CUDA_BF16:
        memcpy(&half, bytes, sizeof half);
        word = (uint32_t)half << 16;
        memcpy(&f, &word, sizeof f);
        return (double)f;
    default:
        memcpy(&f, bytes, sizeof f);
        return (double)f;
    }
}

/* torch's way to say which stream this thread works on. */
static bool find_stream(struct pb_cuda *c, const struct pb_py *py)
{
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *native = modules ? py->PyDict_GetItemString(modules, "torch._C") : NULL;

    if (!c->get_device)
        c->get_device = native ? py->PyObject_GetAttrString(native, "_cuda_getDevice") : NULL;
    if (!c->get_stream)
        c->get_stream = native ? py->PyObject_GetAttrString(native, "_cuda_getCurrentRawStream")
                               : NULL;
    py->PyErr_Clear();
    return c->get_device && c->get_stream;
}

/* Making things is not allowed while some thread captures, unless one says that one knows. */
static bool make(struct pb_cuda *c)
{
    int mode = PB_DRIVER_CAPTURE_RELAXED;
    bool good = true;
    void *p = NULL;

    c->driver.capture_mode(&mode);
    if (!c->pinned && c->driver.host_alloc(&p, PB_CUDA_SLOTS * VALUE_BYTES) == 0)
        c->pinned = p;
    for (int i = 0; good && i < PB_CUDA_SLOTS; i++)
        good = c->slots[i].event ||
               c->driver.event_create(&c->slots[i].event, EVENT_NO_TIMING) == 0;
    c->driver.capture_mode(&mode);
    return good && c->pinned;
}

/* Is CUDA in use on this thread? It is never made to be. */
static void look(struct pb_cuda *c, const struct pb_py *py, uint64_t now)
{
    void *context = NULL;

    if (!c->found && now >= c->again_ns) {
        c->again_ns = now + AGAIN_NS;
        c->found = pb_driver_find(&c->driver) && c->driver.host_alloc && c->driver.copy;
    }
    if (!c->found || c->driver.context_current(&context) != 0 || !context)
        return; /* not yet */
    c->context = context;
    c->state = find_stream(c, py) && make(c) ? 1 : -1;
}

bool pb_cuda_ready(struct pb_cuda *c, const struct pb_py *py, uint64_t now)
{
    void *context = NULL;

    if (c->state == 0)
        look(c, py, now);
    return c->state > 0 && c->driver.context_current(&context) == 0 && context == c->context;
}

bool pb_cuda_stream(struct pb_cuda *c, const struct pb_py *py, void **ret)
{
    struct _object *device = py->PyObject_CallFunction(c->get_device, NULL);
    struct _object *stream = device ? py->PyObject_CallFunction(c->get_stream, "(O)", device)
                                    : NULL;
    long long value = stream ? py->PyLong_AsLongLong(stream) : -1;
    int status = 1;

    py->Py_DecRef(stream);
    py->Py_DecRef(device);
    if (py->PyErr_Occurred()) {
        py->PyErr_Clear();
        return false;
    }
    *ret = (void *)(uintptr_t)value;
    return c->driver.capturing(*ret, &status) == 0 && status == 0;
}

/* Waits where the GPU is far behind, or hangs: the others have the GIL meanwhile. */
static bool put_copy(struct pb_cuda *c, const struct pb_py *py, int i, uint64_t address,
                     size_t size, void *stream)
{
    void *state = py->PyEval_SaveThread();
    bool good = c->driver.copy(c->pinned + i * VALUE_BYTES, address, size, stream) == 0 &&
                c->driver.event_record(c->slots[i].event, stream) == 0;

    py->PyEval_RestoreThread(state);
    return good;
}

void pb_cuda_fetch(struct pb_cuda *c, const struct pb_py *py, struct pb_cuda_value *v,
                   uint64_t address, enum pb_cuda_kind kind)
{
    int i = v->state == PB_CUDA_COMING ? v->slot : -1;
    uint32_t left = c->left;
    void *stream;
    bool good;

    if (!pb_cuda_stream(c, py, &stream) || left != c->left)
        return;
    for (int k = 0; i < 0 && k < PB_CUDA_SLOTS; k++)
        if (!c->slots[k].taken)
            i = k;
    if (i < 0)
        return;
    v->state = PB_CUDA_NONE;
    c->slots[i].taken = true;
    good = put_copy(c, py, i, address, sizes[kind], stream);
    if (left != c->left)
        return;
    if (good && v->state != PB_CUDA_COMING)
        *v = (struct pb_cuda_value){.state = PB_CUDA_COMING, .kind = kind, .slot = i};
    else
        c->slots[i].taken = false;
}

void pb_cuda_leave(struct pb_cuda *c)
{
    c->left++;
    for (int i = 0; i < PB_CUDA_SLOTS; i++)
        c->slots[i].taken = false;
}

bool pb_cuda_is_done(struct pb_cuda *c, void *event)
{
    int mode = PB_DRIVER_CAPTURE_RELAXED, rc;

    c->driver.capture_mode(&mode);
    rc = c->driver.event_query(event);
    c->driver.capture_mode(&mode);
    return rc == 0;
}

bool pb_cuda_arrived(struct pb_cuda *c, struct pb_cuda_value *v, bool drop)
{
    void *context = NULL;

    if (v->state != PB_CUDA_COMING)
        return true;
    if (c->state > 0 && c->driver.context_current(&context) == 0 && context == c->context &&
        pb_cuda_is_done(c, c->slots[v->slot].event)) {
        v->v = pb_cuda_decode(c->pinned + v->slot * VALUE_BYTES, v->kind);
        v->state = PB_CUDA_KNOWN;
    } else if (drop) {
        v->state = PB_CUDA_NONE;
    }
    if (v->state != PB_CUDA_COMING)
        c->slots[v->slot].taken = false;
    return v->state != PB_CUDA_COMING;
}

int pb_cuda_span_begin(struct pb_cuda *c, const struct pb_py *py)
{
    struct pb_cuda_span *s;
    void *stream;
    int span;

    if (c->state <= 0 || c->nspans >= PB_CUDA_SPANS || !pb_cuda_stream(c, py, &stream))
        return -1;
    s = &c->spans[c->nspans];
    if ((!s->from && c->driver.event_create(&s->from, 0) != 0) ||
        (!s->to && c->driver.event_create(&s->to, 0) != 0))
        return -1;
    s->ended = false;
    span = (int)c->nspans++;
    return pb_driver_record(&c->driver, py, s->from, stream) == 0 ? span : -1;
}

void pb_cuda_span_end(struct pb_cuda *c, const struct pb_py *py, int span)
{
    void *stream;

    if (span >= 0 && (unsigned)span < c->nspans && pb_cuda_stream(c, py, &stream))
        c->spans[span].ended =
            pb_driver_record(&c->driver, py, c->spans[span].to, stream) == 0;
}

void pb_cuda_spans_clear(struct pb_cuda *c)
{
    c->nspans = 0;
}

void pb_cuda_forked(struct pb_cuda *c)
{
    c->state = c->state ? -1 : 0;
    c->found = false;
    c->nspans = 0;
    pb_cuda_leave(c);
}
