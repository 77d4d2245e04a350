#include "stack/values/value.h"

#include <string.h>

#include "stack/values/show.h"

const struct pb_py_limits pb_py_limits_default = {
    .depth = 3,
    .items = 8,
    .length = 120,
    .total = 500,
    .reads = 400,
};

bool pb_py_show_full(const struct pb_py_show *v)
{
    return v->src.reads <= 0 || v->out->len - v->start >= (size_t)v->lim->total;
}

void pb_py_show_open(struct pb_py_show *v, const struct pb_py_obj *o)
{
    if (!o->type->exact)
        pb_buf_printf(v->out, "%s(", pb_py_type_short(o->type));
}

void pb_py_show_close(struct pb_py_show *v, const struct pb_py_obj *o)
{
    if (!o->type->exact)
        pb_buf_putc(v->out, ')');
}

bool pb_py_show_enter(struct pb_py_show *v, uint64_t addr, const char *brackets)
{
    for (int i = 0; i < v->depth; i++) {
        if (v->open[i] == addr) {
            pb_buf_printf(v->out, "%c...%c", brackets[0], brackets[1]);
            return false;
        }
    }
    if (v->depth >= v->lim->depth || v->depth >= PB_PY_DEPTH_MAX) {
        pb_buf_printf(v->out, "%c…%c", brackets[0], brackets[1]);
        return false;
    }
    v->open[v->depth++] = addr;
    return true;
}

void pb_py_show_leave(struct pb_py_show *v)
{
    v->depth--;
}

bool pb_py_show_next(struct pb_py_show *v, uint64_t i, uint64_t total)
{
    if (i > 0)
        pb_buf_puts(v->out, ", ");
    if (i < (uint64_t)v->lim->items && !pb_py_show_full(v))
        return true;
    if (total > i)
        pb_buf_printf(v->out, "… %llu more", (unsigned long long)(total - i));
    else
        pb_buf_puts(v->out, "…");
    return false;
}

static void show_doubles(struct pb_py_show *v, const struct pb_py_obj *o)
{
    bool is_float = o->type->kind == PB_PY_FLOAT;
    double num[2] = {0};
    uint64_t word[2] = {0};

    if (!pb_py_word(&v->src, o, v->src.r->py->float_value, &word[0]) ||
        (!is_float && !pb_py_word(&v->src, o, v->src.r->py->float_value + 8, &word[1]))) {
        pb_buf_puts(v->out, "<unreadable>");
        return;
    }
    memcpy(num, word, sizeof num);
    pb_py_show_open(v, o);
    if (is_float)
        pb_py_float_repr(num[0], v->out);
    else
        pb_py_complex_repr(num[0], num[1], v->out);
    pb_py_show_close(v, o);
}

static void show_bytes(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_layout *py = v->src.r->py;
    uint64_t size, data = o->addr + (uint64_t)py->bytes_data;

    if (!pb_py_word(&v->src, o, py->ob_size, &size)) {
        pb_buf_puts(v->out, "<unreadable>");
        return;
    }
    if (o->type->kind == PB_PY_BYTES) {
        pb_py_show_open(v, o);
        pb_py_bytes_repr(&v->src, data, size, v->lim->length, v->out);
        pb_py_show_close(v, o);
        return;
    }
    /* bytearray: size, alloc, bytes, start */
    if (!pb_py_word(&v->src, o, py->ob_size + 24, &data)) {
        pb_buf_puts(v->out, "<unreadable>");
        return;
    }
    pb_buf_printf(v->out, "%s(", pb_py_type_short(o->type));
    pb_py_bytes_repr(&v->src, data, size, v->lim->length, v->out);
    pb_buf_putc(v->out, ')');
}

static void show_int(struct pb_py_show *v, const struct pb_py_obj *o)
{
    pb_py_show_open(v, o);
    pb_py_int_repr(&v->src, o, v->out);
    pb_py_show_close(v, o);
}

static void show_bool(struct pb_py_show *v, const struct pb_py_obj *o)
{
    int64_t value;

    if (pb_py_int_of(&v->src, o, &value))
        pb_buf_puts(v->out, value ? "True" : "False");
    else
        pb_buf_puts(v->out, "<unreadable>");
}

static void show_str(struct pb_py_show *v, const struct pb_py_obj *o)
{
    pb_py_show_open(v, o);
    pb_py_str_repr(&v->src, o, v->lim->length, v->out);
    pb_py_show_close(v, o);
}

/* range and slice: three objects behind the head. */
static void show_range(struct pb_py_show *v, const struct pb_py_obj *o)
{
    int head = v->src.r->py->ob_head;
    uint64_t part[3];
    struct pb_py_obj step;
    int64_t one = 0;

    for (int i = 0; i < 3; i++) {
        if (!pb_py_word(&v->src, o, head + 8 * i, &part[i])) {
            pb_buf_puts(v->out, "<unreadable>");
            return;
        }
    }
    if (!pb_py_show_enter(v, o->addr, "()"))
        return;
    pb_buf_printf(v->out, "%s(", pb_py_type_short(o->type));
    pb_py_show_value(v, part[0]);
    pb_buf_puts(v->out, ", ");
    pb_py_show_value(v, part[1]);
    /* repr() leaves out the step of a range when it is 1. */
    if (o->type->kind == PB_PY_SLICE || !pb_py_open(&v->src, part[2], &step) ||
        !pb_py_int_of(&v->src, &step, &one) || one != 1) {
        pb_buf_puts(v->out, ", ");
        pb_py_show_value(v, part[2]);
    }
    pb_buf_putc(v->out, ')');
    pb_py_show_leave(v);
}

static bool show_scalar(struct pb_py_show *v, const struct pb_py_obj *o)
{
    switch (o->type->kind) {
    case PB_PY_NONE:
        pb_buf_puts(v->out, "None");
        return true;
    case PB_PY_ELLIPSIS:
        pb_buf_puts(v->out, "Ellipsis");
        return true;
    case PB_PY_NOT_IMPLEMENTED:
        pb_buf_puts(v->out, "NotImplemented");
        return true;
    case PB_PY_BOOL:
        show_bool(v, o);
        return true;
    case PB_PY_INT:
        show_int(v, o);
        return true;
    case PB_PY_FLOAT:
    case PB_PY_COMPLEX:
        show_doubles(v, o);
        return true;
    case PB_PY_STR:
        show_str(v, o);
        return true;
    case PB_PY_BYTES:
    case PB_PY_BYTEARRAY:
        show_bytes(v, o);
        return true;
    case PB_PY_RANGE:
    case PB_PY_SLICE:
        show_range(v, o);
        return true;
    default:
        return false;
    }
}

void pb_py_show_value(struct pb_py_show *v, uint64_t addr)
{
    const struct pb_py_layout *py = v->src.r->py;
    struct pb_py_obj o;

    if (pb_py_show_full(v)) {
        pb_buf_puts(v->out, "…");
        return;
    }
    /* From 3.14 on the interpreter's stack may hold a small int instead of a reference. */
    if (py->tagged && (addr & 3) == 3) {
        pb_buf_printf(v->out, "%lld", (long long)((int64_t)addr >> 2));
        return;
    }
    addr = pb_py_untag(py, addr);
    if (!pb_py_open(&v->src, addr, &o)) {
        pb_buf_puts(v->out, v->src.reads > 0 ? "<unreadable>" : "…");
        return;
    }
    if (!pb_py_show_enum(v, &o) && !show_scalar(v, &o) && !pb_py_show_container(v, &o))
        pb_py_show_object(v, &o);
}

void pb_py_value(struct pb_py_reader *r, uint64_t addr, const struct pb_py_limits *lim,
                 struct pb_buf *out)
{
    struct pb_py_show v = {
        .src = {r, lim->reads},
        .lim = lim,
        .out = out,
        .start = out->len,
    };

    pb_py_show_value(&v, addr);
}
