#include "agent/user/user.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/collect.h"
#include "agent/collectors/internal.h"
#include "agent/user/internal.h"

/* The package's copy of the library, by the name that Python has for it. */
#define OTHER "probing.libprobing"

struct _object *pb_user_wrong(const struct pb_self *self, const char *format, ...)
{
    char text[240];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    self->py.PyErr_SetString(*self->py.PyExc_TypeError, text);
    return NULL;
}

bool pb_user_next(const struct pb_py *py, const struct pb_user_args *args, ssize_t *at,
                  struct _object **ret_name, struct _object **ret_value)
{
    if (args->mapping)
        return py->PyDict_Next(args->mapping, at, ret_name, ret_value);
    if (!args->names || *at >= py->PyTuple_Size(args->names))
        return false;
    *ret_name = py->PyTuple_GetItem(args->names, *at);
    *ret_value = args->v[args->n + (*at)++];
    return true;
}

struct _object *pb_user_unpack(struct _object *object, struct _object *tuple,
                               struct _object *mapping, pb_user_call *call)
{
    struct pb_self *self = pb_self();
    struct _object *v[PB_RING_COLUMNS_MAX + 1];
    struct pb_user_args args = {v, self->py.PyTuple_Size(tuple), NULL, mapping};

    if (args.n > PB_RING_COLUMNS_MAX + 1)
        return pb_user_wrong(self, "too many arguments");
    for (ssize_t i = 0; i < args.n; i++)
        v[i] = self->py.PyTuple_GetItem(tuple, i);
    return call(object, &args);
}

/* builtins.name, held for good. */
static struct _object *builtin(const struct pb_py *py, const char *name)
{
    struct _object *value = py->PyDict_GetItemString(py->PyEval_GetBuiltins(), name);

    py->Py_IncRef(value);
    return value;
}

/* How large an object is before anything is put into it depends on how Python was built. */
static size_t head_size(const struct pb_py *py)
{
    struct _object *object = builtin(py, "object");
    struct _object *size = object ? py->PyObject_GetAttrString(object, "__basicsize__") : NULL;
    long long n = size ? py->PyLong_AsLongLong(size) : 0;

    py->Py_DecRef(size);
    py->Py_DecRef(object);
    return n >= 16 && n <= 64 ? (size_t)n : 0;
}

bool pb_user_prepare(struct pb_self *self)
{
    struct pb_user *u = self->user;
    const struct pb_py *py = &self->py;

    if (u->ready)
        return true;
    u->head = head_size(py);
    u->int_type = builtin(py, "int");
    u->float_type = builtin(py, "float");
    u->str_type = builtin(py, "str");
    u->yes = builtin(py, "True");
    u->no = builtin(py, "False");
    if (!u->head || !u->int_type || !u->float_type || !u->str_type || !u->yes || !u->no ||
        !pb_user_make_key(self)) {
        py->PyErr_SetString(*py->PyExc_RuntimeError, "probing: no tables in this Python");
        return false;
    }
    pb_user_init_spans(self);
    u->table_type = pb_user_make_table_type(self);
    u->span_type = u->table_type ? pb_user_make_span_type(self) : NULL;
    u->ready = u->span_type != NULL;
    return u->ready;
}

static void forget(struct pb_user_table *t)
{
    atomic_store_explicit(&t->ring, NULL, memory_order_release);
}

/* Rings are looked for again when that may be. */
static void forget_rings(struct pb_self *self)
{
    struct pb_user *u = self->user;

    pthread_mutex_lock(&u->lock);
    forget(&u->spans);
    forget(&u->events);
    for (struct pb_user_table *t = u->first; t; t = t->next)
        forget(t);
    pthread_mutex_unlock(&u->lock);
}

static void forked(struct pb_self *self)
{
    struct pb_user *u = self->user;
    struct pb_user_thread *thread = u->ready ? pthread_getspecific(u->key) : NULL;

    pthread_mutex_init(&u->lock, NULL);
    forget(&u->spans);
    forget(&u->events);
    for (struct pb_user_table *t = u->first; t; t = t->next)
        forget(t);
    if (thread)
        thread->tid = 0;
}

/* Calls a function of the other copy's module; none there, or none of this name, is fine. */
static void call_other_copy(struct pb_self *self, const char *name, const char *format)
{
    const struct pb_py *py = &self->py;
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *module = modules ? py->PyDict_GetItemString(modules, OTHER) : NULL;
    struct _object *f = module ? py->PyObject_GetAttrString(module, name) : NULL;
    struct _object *result = NULL;

    if (f)
        result = format ? py->PyObject_CallFunction(f, format, self->collect->home,
                                                    (long long)self->collect->budget)
                        : py->PyObject_CallFunction(f, NULL);
    py->PyErr_Clear();
    py->Py_DecRef(result);
    py->Py_DecRef(f);
}

/* Tells the other copy of the library, if there is one, that the agent is there. */
static void attach(struct pb_self *self)
{
    unsigned generation = self->collect->generation;

    if (atomic_exchange(&self->user->adopted, generation) != generation)
        call_other_copy(self, "follow", "sL");
}

/* And that it leaves. */
static void detach(struct pb_self *self)
{
    if (atomic_exchange(&self->user->adopted, 0))
        call_other_copy(self, "unfollow", NULL);
}

const struct pb_collect_client pb_user_client = {
    .attach = attach,
    .detach = detach,
    .forget_rings = forget_rings,
    .forked = forked,
};

/* follow(folder, bytes): an agent of another copy of this library keeps its tables there. */
static struct _object *call_follow(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct pb_collect *c = self->collect;
    const char *home;
    long long budget;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "sL", &home, &budget))
        return NULL;
    if (self->life == PB_LIFE_STOPPED && !c->on && strlen(home) < sizeof c->home) {
        pthread_mutex_lock(&c->lock);
        strcpy(c->home, home);
        c->budget = budget;
        c->pid = getpid();
        c->generation++;
        c->follows = true;
        c->on = true;
        pthread_mutex_unlock(&c->lock);
    }
    return pb_user_none(self);
}

static struct _object *call_unfollow(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();

    (void)module;
    (void)args;
    pb_collect_unfollow(self);
    return pb_user_none(self);
}

PB_USER_SHAPES(pb_user_span)
PB_USER_SHAPES(pb_user_event)

struct pb_py_method *pb_user_methods(const struct pb_py *py)
{
    /* Python keeps pointers to these. */
    static struct pb_py_method methods[6];

    methods[0] = (struct pb_py_method){"table", pb_user_call_table, PB_PY_VARARGS, NULL};
    methods[1] = PB_USER_METHOD(py, "span", pb_user_span,
                                "span(name, **attributes): with probing.span(\"load\"): ...");
    methods[2] = PB_USER_METHOD(py, "event", pb_user_event, "event(name, **attributes)");
    methods[3] = (struct pb_py_method){"follow", call_follow, PB_PY_VARARGS, NULL};
    methods[4] = (struct pb_py_method){"unfollow", call_unfollow, PB_PY_NOARGS, NULL};
    return methods;
}
