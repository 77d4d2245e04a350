/* Objects without a literal: functions, types, modules, arrays, instances. */
#include <string.h>

#include "stack/values/show.h"

#define TEXT_MAX 200 /* bytes of a name */

/* The str that a field of an object points to, or NULL. */
static char *text_field(struct pb_py_show *v, const struct pb_py_obj *o, int offset)
{
    uint64_t addr;

    return pb_py_word(&v->src, o, offset, &addr) ? pb_py_str_at(&v->src, addr, TEXT_MAX) : NULL;
}

static void show_address(struct pb_py_show *v, const struct pb_py_obj *o)
{
    pb_buf_printf(v->out, "<%s at 0x%llx>", pb_py_type_full(&v->src, o->type),
                  (unsigned long long)o->addr);
}

static void show_named(struct pb_py_show *v, const struct pb_py_obj *o, const char *what,
                       const char *name)
{
    pb_buf_printf(v->out, "<%s %s at 0x%llx>", what, name ? name : "?",
                  (unsigned long long)o->addr);
}

static void show_function(struct pb_py_show *v, const struct pb_py_obj *o)
{
    show_named(v, o, "function", text_field(v, o, v->src.r->py->func_qualname));
}

static void show_generator(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_layout *py = v->src.r->py;

    if (py->gen_qualname == PB_NONE)
        show_address(v, o);
    else
        pb_buf_printf(v->out, "<%s object %s at 0x%llx>", pb_py_type_short(o->type),
                      text_field(v, o, py->gen_qualname) ?: "?", (unsigned long long)o->addr);
}

/* Function and self, behind the head. */
static void show_method(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_layout *py = v->src.r->py;
    struct pb_py_obj func, self;
    uint64_t func_at, self_at;
    const char *name = NULL;

    if (!pb_py_word(&v->src, o, py->ob_head, &func_at) ||
        !pb_py_word(&v->src, o, py->ob_head + 8, &self_at) ||
        !pb_py_open(&v->src, self_at, &self)) {
        show_address(v, o);
        return;
    }
    if (pb_py_open(&v->src, func_at, &func) && func.type->kind == PB_PY_FUNCTION)
        name = text_field(v, &func, py->func_qualname);
    pb_buf_printf(v->out, "<bound method %s of ", name ? name : "?");
    show_address(v, &self);
    pb_buf_putc(v->out, '>');
}

/* A pointer to the method table, whose first word is the name, and self. */
static void show_builtin(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_layout *py = v->src.r->py;
    uint64_t method, name_at, self_at;
    struct pb_py_obj self;
    char name[TEXT_MAX];

    if (!pb_py_word(&v->src, o, py->ob_head, &method) ||
        !pb_py_get(&v->src, method, &name_at, sizeof name_at) ||
        !pb_mem_string(v->src.r->mem, name_at, name, sizeof name)) {
        show_address(v, o);
        return;
    }
    if (!pb_py_word(&v->src, o, py->ob_head + 8, &self_at) || self_at == 0 ||
        !pb_py_open(&v->src, self_at, &self) || self.type->kind == PB_PY_MODULE)
        pb_buf_printf(v->out, "<built-in function %s>", name);
    else
        pb_buf_printf(v->out, "<built-in method %s of %s object at 0x%llx>", name,
                      pb_py_type_full(&v->src, self.type), (unsigned long long)self_at);
}

static void show_type(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_type *t = pb_py_type_at(&v->src, o->addr);

    if (t)
        pb_buf_printf(v->out, "<class '%s'>", pb_py_type_full(&v->src, t));
    else
        show_address(v, o);
}

static void show_module(struct pb_py_show *v, const struct pb_py_obj *o)
{
    uint64_t dict, name = 0;
    char *text;

    if (pb_py_word(&v->src, o, v->src.r->py->ob_head, &dict))
        name = pb_py_dict_find(&v->src, dict, "__name__");
    text = name ? pb_py_str_at(&v->src, name, TEXT_MAX) : NULL;
    pb_buf_printf(v->out, "<module '%s'>", text ? text : "?");
}

/* The dict of the exception stands behind the head, then args. */
static void show_exception(struct pb_py_show *v, const struct pb_py_obj *o)
{
    uint64_t args, size, first;
    struct pb_py_obj tuple;

    pb_buf_puts(v->out, pb_py_type_short(o->type));
    if (!pb_py_word(&v->src, o, v->src.r->py->ob_head + 8, &args) ||
        !pb_py_open(&v->src, args, &tuple) || tuple.type->kind != PB_PY_TUPLE ||
        !pb_py_word(&v->src, &tuple, v->src.r->py->ob_size, &size)) {
        pb_buf_puts(v->out, "(?)");
        return;
    }
    if (size != 1) {
        pb_py_show_container(v, &tuple);
        return;
    }
    pb_buf_putc(v->out, '(');
    if (pb_py_word(&v->src, &tuple, v->src.r->py->tuple_items, &first) &&
        pb_py_show_enter(v, o->addr, "()")) {
        pb_py_show_value(v, first);
        pb_py_show_leave(v);
    }
    pb_buf_putc(v->out, ')');
}

static void show_cell(struct pb_py_show *v, const struct pb_py_obj *o)
{
    uint64_t content;

    if (!pb_py_word(&v->src, o, v->src.r->py->ob_head, &content) || content == 0) {
        pb_buf_puts(v->out, "<cell: empty>");
        return;
    }
    pb_buf_puts(v->out, "<cell: ");
    if (pb_py_show_enter(v, o->addr, "()")) {
        pb_py_show_value(v, content);
        pb_py_show_leave(v);
    }
    pb_buf_putc(v->out, '>');
}

struct attribute_walk {
    struct pb_py_show *v;
    uint64_t i;
};

static bool show_attribute(uint64_t key, uint64_t value, void *arg)
{
    struct attribute_walk *w = arg;
    char *name;

    if (w->i == 0)
        pb_buf_puts(w->v->out, " {");
    if (!pb_py_show_next(w->v, w->i, 0))
        return true;
    w->i++;
    name = pb_py_str_at(&w->v->src, key, TEXT_MAX);
    pb_buf_printf(w->v->out, "%s=", name ? name : "?");
    pb_py_show_value(w->v, value);
    return false;
}

/* Attributes of the outermost instances only: one level says enough and ends. */
static void show_instance(struct pb_py_show *v, const struct pb_py_obj *o)
{
    struct attribute_walk walk = {.v = v};

    show_address(v, o);
    if (v->attributes || v->depth > 1 || v->depth >= v->lim->depth || pb_py_show_full(v))
        return;
    v->open[v->depth++] = o->addr;
    v->attributes++;
    pb_py_instance_walk(&v->src, o, show_attribute, &walk);
    if (walk.i > 0)
        pb_buf_putc(v->out, '}');
    v->attributes--;
    v->depth--;
}

bool pb_py_show_enum(struct pb_py_show *v, const struct pb_py_obj *o)
{
    const struct pb_py_type *meta;
    uint64_t name_at, value_at;
    char *name;

    if (!(o->type->flags & PB_TP_HEAPTYPE) || o->type->kind == PB_PY_TYPE)
        return false;
    meta = pb_py_type_at(&v->src, o->type->meta);
    if (!meta || !(meta->flags & PB_TP_HEAPTYPE) ||
        (strcmp(meta->name, "EnumType") != 0 && strcmp(meta->name, "EnumMeta") != 0))
        return false;
    name_at = pb_py_instance_find(&v->src, o, "_name_");
    value_at = pb_py_instance_find(&v->src, o, "_value_");
    name = name_at ? pb_py_str_at(&v->src, name_at, TEXT_MAX) : NULL;
    if (!name || !value_at || value_at == o->addr || !pb_py_show_enter(v, o->addr, "<>"))
        return false;
    pb_buf_printf(v->out, "<%s.%s: ", pb_py_type_short(o->type), name);
    pb_py_show_value(v, value_at);
    pb_buf_putc(v->out, '>');
    pb_py_show_leave(v);
    return true;
}

void pb_py_show_object(struct pb_py_show *v, const struct pb_py_obj *o)
{
    switch (o->type->kind) {
    case PB_PY_FUNCTION:
        show_function(v, o);
        break;
    case PB_PY_METHOD:
        show_method(v, o);
        break;
    case PB_PY_BUILTIN:
        show_builtin(v, o);
        break;
    case PB_PY_TYPE:
        show_type(v, o);
        break;
    case PB_PY_MODULE:
        show_module(v, o);
        break;
    case PB_PY_GENERATOR:
    case PB_PY_COROUTINE:
    case PB_PY_ASYNC_GENERATOR:
        show_generator(v, o);
        break;
    case PB_PY_EXCEPTION:
        show_exception(v, o);
        break;
    case PB_PY_CELL:
        show_cell(v, o);
        break;
    case PB_PY_NDARRAY:
    case PB_PY_NUMPY_SCALAR:
        pb_py_show_numpy(v, o);
        break;
    case PB_PY_TENSOR:
    case PB_PY_TENSOR_OLD:
        if (pb_py_show_tensor(v, o))
            break;
        show_instance(v, o);
        break;
    default:
        if (!pb_py_show_pandas(v, o))
            show_instance(v, o);
    }
}
