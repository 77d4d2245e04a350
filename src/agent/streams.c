#include "agent/streams.h"

#include <string.h>

#include "agent/glue.h"

/* PyCriticalSection. */
struct critical_section {
    uintptr_t previous;
    void *mutex;
};

static const char *const names[PB_STREAMS] = {"stdin", "stdout", "stderr"};

/* The slot of this thread; NULL unless it evaluates. */
static struct pb_stream_slot *own_slot(struct pb_self *self)
{
    struct pb_streams *s = &self->glue->streams;
    unsigned long ident;

    if (!s->busy)
        return NULL;
    ident = self->py.PyThread_get_thread_ident();
    for (int i = 0; i < PB_STREAM_SLOTS; i++)
        if (s->slots[i].ident == ident)
            return &s->slots[i];
    return NULL;
}

/* A new reference, or NULL without an exception. */
static struct _object *get_item(const struct pb_py *py, struct _object *dict, const char *name)
{
    struct _object *found = NULL;

    if (py->PyDict_GetItemStringRef) {
        if (py->PyDict_GetItemStringRef(dict, name, &found) < 0)
            py->PyErr_Clear();
        return found;
    }
    found = py->PyDict_GetItemString(dict, name);
    py->Py_IncRef(found);
    return found;
}

/* What the evaluating thread sees; a new reference. */
static struct _object *view_of(struct pb_self *self, const struct pb_stream_slot *slot, int fd)
{
    struct _object *o = slot->own[fd] ? slot->own[fd] : self->glue->streams.stand_in[fd];

    self->py.Py_IncRef(o);
    return o;
}

/* Which stream a bound function is for; -1 with an exception. */
static int stream_of(const struct pb_py *py, struct _object *number)
{
    long long fd = py->PyLong_AsLongLong(number);

    if (fd >= 0 && fd < PB_STREAMS)
        return (int)fd;
    if (!py->PyErr_Occurred())
        py->PyErr_SetString(*py->PyExc_ValueError, "no such stream");
    return -1;
}

static struct _object *no_attribute(const struct pb_py *py)
{
    py->PyErr_SetString(*py->PyExc_AttributeError, "module has no such stream");
    return NULL;
}

static struct _object *call_get(struct _object *number, struct _object *module)
{
    struct pb_self *self = pb_self();
    const struct pb_py *py = &self->py;
    struct pb_stream_slot *slot = own_slot(self);
    struct _object *dict, *found;
    int fd = stream_of(py, number);

    if (fd < 0)
        return NULL;
    if (slot && module == self->glue->streams.sys)
        return view_of(self, slot, fd);
    dict = py->PyModule_GetDict(module);
    if (!dict)
        return NULL;
    found = get_item(py, dict, names[fd]);
    return found ? found : no_attribute(py);
}

static void set_own(struct pb_self *self, struct pb_stream_slot *slot, int fd,
                    struct _object *value)
{
    struct _object *old = slot->own[fd];

    if (value == self->glue->streams.stand_in[fd])
        value = NULL;
    self->py.Py_IncRef(value);
    slot->own[fd] = value;
    self->py.Py_DecRef(old);
}

static struct _object *call_set(struct _object *number, struct _object *args)
{
    struct pb_self *self = pb_self();
    const struct pb_py *py = &self->py;
    struct pb_stream_slot *slot = own_slot(self);
    struct _object *module, *value, *dict;
    int fd = stream_of(py, number);

    if (fd < 0 || !py->PyArg_ParseTuple(args, "OO", &module, &value))
        return NULL;
    if (slot && module == self->glue->streams.sys) {
        set_own(self, slot, fd, value);
        return py->Py_BuildValue("");
    }
    dict = py->PyModule_GetDict(module);
    if (!dict || py->PyDict_SetItemString(dict, names[fd], value) < 0)
        return NULL;
    return py->Py_BuildValue("");
}

static struct _object *call_delete(struct _object *number, struct _object *module)
{
    const struct pb_py *py = &pb_self()->py;
    int fd = stream_of(py, number);
    struct _object *dict = fd < 0 ? NULL : py->PyModule_GetDict(module);

    if (!dict)
        return NULL;
    if (py->PyDict_DelItemString(dict, names[fd]) < 0) {
        py->PyErr_Clear();
        return no_attribute(py);
    }
    return py->Py_BuildValue("");
}

/* Calls what stands under `name` in a module that holds it for one of our functions. */
static struct _object *call_held(const struct pb_py *py, struct _object *holder, const char *name,
                                 struct _object *args, struct _object *keywords)
{
    struct _object *dict = py->PyModule_GetDict(holder);
    struct _object *f = dict ? get_item(py, dict, name) : NULL;
    struct _object *result;

    if (!f)
        return dict ? no_attribute(py) : NULL;
    result = py->PyObject_Call(f, args, keywords);
    py->Py_DecRef(f);
    return result;
}

/* The keywords of print with a stream to print to; *ret_none: there is none, and nothing to do. */
static struct _object *print_keywords(struct pb_self *self, const struct pb_stream_slot *slot,
                                      struct _object *keywords, bool *ret_none)
{
    const struct pb_py *py = &self->py;
    struct _object *all = keywords ? py->PyDict_Copy(keywords) : py->PyDict_New();
    struct _object *file = all ? get_item(py, all, "file") : NULL;

    *ret_none = false;
    if (all && (!file || file == py->none)) {
        py->Py_DecRef(file);
        file = view_of(self, slot, 1);
        *ret_none = file == py->none;
        if (py->PyDict_SetItemString(all, "file", file) < 0) {
            py->Py_DecRef(all);
            all = NULL;
        }
    }
    py->Py_DecRef(file);
    return all;
}

/* In front of print: `real` in the holder is the program's, `ours` prints for evaluated code. */
static struct _object *call_print(struct _object *holder, struct _object *args,
                                  struct _object *keywords)
{
    struct pb_self *self = pb_self();
    const struct pb_py *py = &self->py;
    struct pb_stream_slot *slot = own_slot(self);
    struct _object *all, *result = NULL;
    bool none;

    if (!slot)
        return call_held(py, holder, "real", args, keywords);
    all = print_keywords(self, slot, keywords, &none);
    if (all)
        result = none ? py->Py_BuildValue("") : call_held(py, holder, "ours", args, all);
    py->Py_DecRef(all);
    return result;
}

static struct _object *call_input(struct _object *holder, struct _object *args,
                                  struct _object *keywords)
{
    struct pb_self *self = pb_self();

    return call_held(&self->py, holder, own_slot(self) ? "ours" : "real", args, keywords);
}

/* From 3.14 on attributes of a module are found without its class, unless that has this. */
static struct _object *call_getattribute(struct _object *real, struct _object *args)
{
    return pb_self()->py.PyObject_Call(real, args, NULL);
}

/* claim() -> whether this thread now sees streams of its own. */
static struct _object *call_claim(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    unsigned long ident = self->py.PyThread_get_thread_ident();
    bool good = own_slot(self) != NULL;

    (void)module;
    (void)args;
    for (int i = 0; i < PB_STREAM_SLOTS && !good; i++) {
        unsigned long none = 0;

        good = atomic_compare_exchange_strong(&self->glue->streams.slots[i].ident, &none, ident);
        self->glue->streams.busy += good;
    }
    return self->py.Py_BuildValue("i", good);
}

/* release() -> {name: what the code put there itself}. */
static struct _object *call_release(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    const struct pb_py *py = &self->py;
    struct pb_stream_slot *slot = own_slot(self);
    struct _object *left = py->PyDict_New();

    (void)module;
    (void)args;
    if (!slot || !left)
        return left;
    for (int fd = 0; fd < PB_STREAMS; fd++) {
        struct _object *own = slot->own[fd];

        slot->own[fd] = NULL;
        if (own && py->PyDict_SetItemString(left, names[fd], own) < 0)
            py->PyErr_Clear();
        py->Py_DecRef(own);
    }
    slot->ident = 0;
    self->glue->streams.busy--;
    return left;
}

/* stand_in(fd, stream): what evaluating threads see from now on. The one before stays alive. */
static struct _object *call_stand_in(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    const struct pb_py *py = &self->py;
    struct _object *stream;
    int fd;

    (void)module;
    if (!py->PyArg_ParseTuple(args, "iO", &fd, &stream))
        return NULL;
    if (fd < 0 || fd >= PB_STREAMS)
        return no_attribute(py);
    py->Py_IncRef(stream);
    self->glue->streams.stand_in[fd] = stream;
    return py->Py_BuildValue("");
}

/* view(fd) -> the stream of this thread, whatever the class of sys is. */
static struct _object *call_view(struct _object *module, struct _object *number)
{
    struct pb_self *self = pb_self();
    struct pb_stream_slot *slot = own_slot(self);
    int fd = stream_of(&self->py, number);

    (void)module;
    if (fd < 0)
        return NULL;
    return slot ? view_of(self, slot, fd) : no_attribute(&self->py);
}

/* exchange(dict, name, old, new): sets it if it is old still, in one go -> whether it was. */
static struct _object *call_exchange(struct _object *module, struct _object *args)
{
    const struct pb_py *py = &pb_self()->py;
    struct critical_section section = {0};
    struct _object *dict, *old, *new, *now;
    const char *name;
    bool guarded = py->free_threaded && py->PyCriticalSection_Begin && py->PyCriticalSection_End;
    int rc = 0;

    (void)module;
    if (!py->PyArg_ParseTuple(args, "OsOO", &dict, &name, &old, &new))
        return NULL;
    if (guarded)
        py->PyCriticalSection_Begin(&section, dict);
    now = get_item(py, dict, name);
    if (now == old)
        rc = py->PyDict_SetItemString(dict, name, new);
    if (guarded)
        py->PyCriticalSection_End(&section);
    py->Py_DecRef(now);
    return rc < 0 ? NULL : py->Py_BuildValue("i", now == old);
}

/* Python keeps pointers to these for as long as a function object lives. */
static struct pb_py_method bound[] = {
    {"get", call_get, PB_PY_O, NULL},
    {"set", call_set, PB_PY_VARARGS, NULL},
    {"delete", call_delete, PB_PY_O, NULL},
    {"__getattribute__", call_getattribute, PB_PY_VARARGS, NULL},
    {"print", (struct _object * (*)(struct _object *, struct _object *)) (void *)call_print,
     PB_PY_VARARGS | PB_PY_KEYWORDS,
     "print(*args, sep=' ', end='\\n', file=None, flush=False)\n--\n\n"
     "Prints the values to a stream, or to sys.stdout by default."},
    {"input", (struct _object * (*)(struct _object *, struct _object *)) (void *)call_input,
     PB_PY_VARARGS | PB_PY_KEYWORDS,
     "input(prompt='', /)\n--\n\nRead a string from standard input."},
};

/* bind(name, object): one of the functions above, with what it works on. */
static struct _object *call_bind(struct _object *module, struct _object *args)
{
    const struct pb_py *py = &pb_self()->py;
    struct _object *object, *owner, *f = NULL;
    const char *name;

    (void)module;
    if (!py->PyArg_ParseTuple(args, "sO", &name, &object))
        return NULL;
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        if (strcmp(bound[i].name, name) != 0)
            continue;
        owner = py->PyUnicode_InternFromString("builtins");
        f = owner ? py->PyCFunction_NewEx(&bound[i], object, owner) : NULL;
        py->Py_DecRef(owner);
        return f;
    }
    return no_attribute(py);
}

/* method(function): one that gets the object as its first argument, as in a class. */
static struct _object *call_method(struct _object *module, struct _object *f)
{
    (void)module;
    return pb_self()->py.PyInstanceMethod_New(f);
}

static struct pb_py_method given[] = {
    {"claim", call_claim, PB_PY_NOARGS, NULL},
    {"release", call_release, PB_PY_NOARGS, NULL},
    {"stand_in", call_stand_in, PB_PY_VARARGS, NULL},
    {"view", call_view, PB_PY_O, NULL},
    {"exchange", call_exchange, PB_PY_VARARGS, NULL},
    {"bind", call_bind, PB_PY_VARARGS, NULL},
    {"method", call_method, PB_PY_O, NULL},
};

bool pb_streams_add(struct pb_self *self, struct _object *dict)
{
    const struct pb_py *py = &self->py;

    if (!self->glue->streams.sys)
        self->glue->streams.sys = py->PyImport_ImportModule("sys");
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        struct _object *f = py->PyCFunction_NewEx(&given[i], NULL, NULL);
        bool good = f && py->PyDict_SetItemString(dict, given[i].name, f) == 0;

        py->Py_DecRef(f);
        if (!good)
            return false;
    }
    return self->glue->streams.sys != NULL;
}

/* No interpreter yet: what the slots of gone threads refer to is never freed. */
void pb_streams_after_fork(struct pb_self *self)
{
    struct pb_streams *s = &self->glue->streams;
    unsigned long ident = s->busy ? self->py.PyThread_get_thread_ident() : 0;
    int busy = 0;

    for (int i = 0; i < PB_STREAM_SLOTS; i++) {
        if (ident && s->slots[i].ident == ident) {
            busy++;
            continue;
        }
        s->slots[i].ident = 0;
        memset(s->slots[i].own, 0, sizeof s->slots[i].own);
    }
    s->busy = busy;
}
