/* probing.span() and probing.event(). */
#include <stdio.h>
#include <string.h>

#include "agent/user/internal.h"
#include "base/clock.h"
#include "schema/python_events.h"
#include "schema/python_spans.h"
#include "schema/table.h"

enum { ROWS = 65536, JSON_MAX = 2048 };
/* How long the two clocks are taken to run alike. */
#define OFFSET_NS 500000000u

static const struct pb_column_spec span_columns[] = {PB_PYTHON_SPANS(PB_TABLE_COLUMN)};
static const struct pb_column_spec event_columns[] = {PB_PYTHON_EVENTS(PB_TABLE_COLUMN)};

enum {
#define X(name, type, unit, doc) SPAN_##name,
    PB_PYTHON_SPANS(X)
#undef X
        SPAN_COLUMNS
};

enum {
#define X(name, type, unit, doc) EVENT_##name,
    PB_PYTHON_EVENTS(X)
#undef X
        EVENT_COLUMNS
};

void pb_user_init_spans(struct pb_self *self)
{
    self->user->spans.spec = (struct pb_ring_spec){
        .name = PB_PYTHON_SPANS_NAME, .doc = PB_PYTHON_SPANS_DOC, .columns = span_columns,
        .ncolumns = SPAN_COLUMNS, .rows = ROWS, .flags = PB_RING_KEEP};
    self->user->events.spec = (struct pb_ring_spec){
        .name = PB_PYTHON_EVENTS_NAME, .doc = PB_PYTHON_EVENTS_DOC, .columns = event_columns,
        .ncolumns = EVENT_COLUMNS, .rows = ROWS, .flags = PB_RING_KEEP};
}

/* What a Span object holds. Zeroed when made. */
struct span {
    struct _object *name, *attrs; /* attrs: a dictionary, or NULL */
    bool open;                    /* between enter and exit, and to be written */
    int64_t id, parent, depth;
    uint64_t began_ns;
};

static struct span *span_of(struct pb_self *self, struct _object *object)
{
    return pb_user_inside(self, object);
}

/* Adds names and values to the span's own. False: an exception is set. */
static bool add_attrs(struct pb_self *self, struct span *s, const struct pb_user_args *args)
{
    struct _object *name, *value;
    ssize_t at = 0;

    while (pb_user_next(&self->py, args, &at, &name, &value)) {
        if (!s->attrs && !(s->attrs = self->py.PyDict_New()))
            return false;
        if (self->py.PyDict_SetItem(s->attrs, name, value) < 0)
            return false;
    }
    return true;
}

/* The function, made to run inside a span of this name each time: the package's Python part. */
static struct _object *decorate(struct pb_self *self, struct _object *function,
                                struct _object *name, struct _object *attrs)
{
    const struct pb_py *py = &self->py;
    struct _object *module = py->PyImport_ImportModule("probing._wrap");
    struct _object *f = module ? py->PyObject_GetAttrString(module, "wrap") : NULL;
    struct _object *none = py->none, *result = NULL;

    if (f)
        result = py->PyObject_CallFunction(f, "OOO", function, name ? name : none,
                                           attrs ? attrs : none);
    py->Py_DecRef(f);
    py->Py_DecRef(module);
    return result;
}

struct _object *pb_user_span(struct _object *module, const struct pb_user_args *args)
{
    struct pb_self *self = pb_self();
    struct _object *object;
    struct span *s;

    (void)module;
    if (args->n != 1)
        return pb_user_wrong(self, "span() takes a name, and attributes by name");
    if (!pb_user_is_str(self, args->v[0])) {
        if (self->py.PyCallable_Check(args->v[0])) /* @probing.span without a name */
            return decorate(self, args->v[0], NULL, NULL);
        return pb_user_wrong(self, "the name of a span is a str");
    }
    object = self->py.PyType_GenericAlloc(self->user->span_type, 0);
    if (!object)
        return NULL;
    s = span_of(self, object);
    s->name = args->v[0];
    self->py.Py_IncRef(s->name);
    if (add_attrs(self, s, args))
        return object;
    self->py.Py_DecRef(object);
    return NULL;
}

/* The time of day at a reading of the monotonic clock; saves a reading of the other one. */
static int64_t wall_at(struct pb_user *u, uint64_t now)
{
    if (now > atomic_load_explicit(&u->offset_until_ns, memory_order_relaxed)) {
        atomic_store_explicit(&u->wall_offset, pb_clock_wall_ns() - (int64_t)pb_clock_ns(),
                              memory_order_relaxed);
        atomic_store_explicit(&u->offset_until_ns, now + OFFSET_NS, memory_order_relaxed);
    }
    return (int64_t)now + atomic_load_explicit(&u->wall_offset, memory_order_relaxed);
}

static struct _object *span_enter(struct _object *object, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct span *s = span_of(self, object);
    struct pb_user_thread *thread = self->collect->on ? pb_user_thread(self) : NULL;

    (void)args;
    self->py.Py_IncRef(object);
    if (!thread || s->open)
        return object;
    s->open = true;
    s->id = atomic_fetch_add_explicit(&self->user->last_span, 1, memory_order_relaxed) + 1;
    s->parent = thread->span;
    s->depth = thread->depth++;
    thread->span = s->id;
    s->began_ns = pb_clock_ns();
    return object;
}

/* Name of the exception's type. */
static uint32_t error_name(struct pb_self *self, struct pb_ring *ring, struct _object *type)
{
    const struct pb_py *py = &self->py;
    struct _object *name, *held;
    uint32_t number = PB_NULL_NAME;
    ssize_t len = 0;
    const char *s;

    if (!type || type == py->none)
        return number;
    name = py->PyObject_GetAttrString(type, "__name__");
    s = name ? pb_user_text(self, name, &len, &held) : NULL;
    if (s) {
        number = pb_ring_name(ring, s, (size_t)len);
        py->Py_DecRef(held);
    }
    py->PyErr_Clear();
    py->Py_DecRef(name);
    return number;
}

/* What was given as attributes, into buf; the cell points there. */
static union pb_cell attrs_cell(struct pb_self *self, const struct pb_user_args *args, char *buf)
{
    union pb_cell cell = {.text = {NULL, 0}};

    if (!args->names && !args->mapping)
        return cell;
    cell.text.len = pb_user_json(self, args, buf, JSON_MAX);
    cell.text.s = cell.text.len ? buf : NULL;
    return cell;
}

static uint32_t name_cell(struct pb_self *self, struct pb_ring *ring, struct _object *name)
{
    ssize_t len = 0;
    const char *s = self->py.PyUnicode_AsUTF8AndSize(name, &len);

    if (s)
        return pb_ring_name(ring, s, (size_t)len);
    self->py.PyErr_Clear();
    return PB_NULL_NAME;
}

static void write_span(struct pb_self *self, struct span *s, struct pb_user_thread *thread,
                       uint64_t ended_ns, struct _object *error)
{
    struct pb_ring *ring = pb_user_ring(self, &self->user->spans);
    struct pb_user_args attrs = {.mapping = s->attrs};
    union pb_cell row[SPAN_COLUMNS];
    char json[JSON_MAX];

    if (!ring)
        return;
    row[SPAN_timestamp].i = wall_at(self->user, s->began_ns);
    row[SPAN_name].name = name_cell(self, ring, s->name);
    row[SPAN_duration_ms].d = (double)(ended_ns - s->began_ns) / 1e6;
    row[SPAN_depth].i = s->depth;
    row[SPAN_tid].i = pb_user_tid(thread);
    row[SPAN_span_id].i = s->id;
    row[SPAN_parent_id].i = s->parent;
    row[SPAN_attrs] = attrs_cell(self, &attrs, json);
    row[SPAN_error].name = error_name(self, ring, error);
    pb_ring_append(ring, row);
}

static struct _object *span_exit(struct _object *object, const struct pb_user_args *args)
{
    struct pb_self *self = pb_self();
    struct span *s = span_of(self, object);
    struct pb_user_thread *thread;
    uint64_t now;

    if (!s->open)
        return pb_user_none(self);
    now = pb_clock_ns();
    s->open = false;
    thread = pb_user_thread(self);
    if (!thread)
        return pb_user_none(self);
    /* One that ends in another order, or in another thread, leaves the others their places. */
    if (thread->span == s->id) {
        thread->span = s->parent;
        thread->depth = s->depth;
    }
    write_span(self, s, thread, now, args->n > 0 ? args->v[0] : NULL);
    return pb_user_none(self);
}

static struct _object *span_set(struct _object *object, const struct pb_user_args *args)
{
    struct pb_self *self = pb_self();

    if (args->n)
        return pb_user_wrong(self, "set() takes attributes by name");
    return add_attrs(self, span_of(self, object), args) ? pb_user_none(self) : NULL;
}

PB_USER_SHAPES(span_exit)
PB_USER_SHAPES(span_set)

/* As a decorator. */
static struct _object *span_call(struct _object *object, struct _object *args,
                                 struct _object *named)
{
    struct pb_self *self = pb_self();
    struct span *s = span_of(self, object);
    struct _object *function;

    if (named || self->py.PyTuple_Size(args) != 1 ||
        !self->py.PyCallable_Check(function = self->py.PyTuple_GetItem(args, 0)))
        return pb_user_wrong(self, "a span is a context manager, or decorates one function");
    return decorate(self, function, s->name, s->attrs);
}

static void span_dealloc(struct _object *object)
{
    struct pb_self *self = pb_self();
    struct span *s = span_of(self, object);
    struct _object *type = pb_user_type_of(self, object);

    self->py.Py_DecRef(s->name);
    self->py.Py_DecRef(s->attrs);
    self->py.PyObject_Free(object);
    self->py.Py_DecRef(type);
}

struct _object *pb_user_make_span_type(struct pb_self *self)
{
    /* Python keeps pointers to these. */
    static struct pb_py_method methods[4];
    struct pb_py_slot slots[] = {
        {PB_PY_TP_METHODS, methods}, {PB_PY_TP_CALL, (void *)span_call},
        {PB_PY_TP_DEALLOC, (void *)span_dealloc},
        {PB_PY_TP_DOC, (void *)"A piece of the program that is timed; probing.span() makes it."},
        {0, NULL}};
    struct pb_py_type_spec spec = {.name = "probing.Span",
                                   .basicsize = (int)(self->user->head + sizeof(struct span)),
                                   .flags = PB_PY_TYPE_FLAGS,
                                   .slots = slots};

    methods[0] = (struct pb_py_method){"__enter__", span_enter, PB_PY_NOARGS, NULL};
    methods[1] = PB_USER_METHOD(&self->py, "__exit__", span_exit, NULL);
    methods[2] = PB_USER_METHOD(&self->py, "set", span_set,
                                "set(**attributes): more of them, while it runs");
    return self->py.PyType_FromSpec(&spec);
}

struct _object *pb_user_event(struct _object *module, const struct pb_user_args *args)
{
    struct pb_self *self = pb_self();
    struct pb_user_thread *thread;
    union pb_cell row[EVENT_COLUMNS];
    char json[JSON_MAX];
    struct pb_ring *ring;

    (void)module;
    if (args->n != 1 || !pb_user_is_str(self, args->v[0]))
        return pb_user_wrong(self, "event() takes a name, a str, and attributes by name");
    ring = pb_user_ring(self, &self->user->events);
    thread = ring ? pb_user_thread(self) : NULL;
    if (thread) {
        row[EVENT_timestamp].i = pb_clock_wall_ns();
        row[EVENT_name].name = name_cell(self, ring, args->v[0]);
        row[EVENT_tid].i = pb_user_tid(thread);
        row[EVENT_span_id].i = thread->span;
        row[EVENT_attrs] = attrs_cell(self, args, json);
        pb_ring_append(ring, row);
    }
    return pb_user_none(self);
}
