/* Which modules there are, and what they are called. */
#include <stdio.h>
#include <string.h>

#include "agent/collect/torch/torch.h"
#include "base/clock.h"

/* Modules inside modules. */
#define DEPTH_MAX 48
/* Modules that are made anew at every step are in no tree: it is looked at less and less often. */
#define STRAYS_MAX 4096

#define GONE ((struct _object *)1)

static size_t place_of(const struct _object *object)
{
    uint64_t x = (uint64_t)(uintptr_t)object >> 4;

    return (size_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & (PB_TORCH_PLACES - 1);
}

static size_t next_place(size_t place)
{
    return (place + 1) & (PB_TORCH_PLACES - 1);
}

/* At least half of the places are never used, so that every search ends soon. */
static struct pb_torch_place *find(struct pb_torch *t, const struct _object *object)
{
    size_t i = place_of(object);

    while (t->places[i].number && t->places[i].object != object)
        i = next_place(i);
    return &t->places[i];
}

struct pb_torch_module *pb_torch_module_find(struct pb_torch *t, const struct _object *object)
{
    const struct pb_torch_place *place = find(t, object);

    return place->number ? &t->modules[place->number - 1] : NULL;
}

struct pb_torch_module *pb_torch_module_called(struct pb_torch *t, const struct _object *object)
{
    uint16_t at = t->coming;

    if (t->objects[at] != object) {
        const struct pb_torch_place *place = find(t, object);

        if (!place->number)
            return NULL;
        t->after[t->last] = at = (uint16_t)(place->number - 1);
    }
    t->last = at;
    t->coming = t->after[at];
    return &t->modules[at];
}

/* GIL: a module went away, its address may be used again. An exception may be pending. */
static struct _object *on_gone(struct _object *address, struct _object *weak)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;
    struct _object *object = (struct _object *)(uintptr_t)py->PyLong_AsLongLong(address);
    struct pb_torch_place *place = find(t, object);
    struct pb_torch_module *m = place->number ? &t->modules[place->number - 1] : NULL;

    if (m && m->weak == weak) {
        t->changes++;
        place->object = m->object = GONE;
        t->objects[m - t->modules] = NULL;
        m->weak = NULL;
        py->Py_DecRef(weak);
    }
    return py->Py_BuildValue("");
}

/* METH_O. Python keeps a pointer to it. */
static struct pb_py_method method_gone = {"probing_gone", on_gone, 8, NULL};

static void place(struct pb_torch *t, uint32_t number)
{
    struct _object *object = t->modules[number - 1].object;
    size_t i = place_of(object);

    while (t->places[i].number)
        i = next_place(i);
    t->places[i] = (struct pb_torch_place){object, number};
}

/* Those that are gone can be used again. Calls under way see that theirs is another one now. */
static void tidy(struct pb_torch *t)
{
    if (t->nnotes)
        pb_torch_notes_write(t);
    t->changes++;
    memset(t->places, 0, sizeof t->places);
    if (t->last_root && t->last_root->object == GONE)
        t->last_root = NULL;
    for (uint32_t number = 1; number <= t->nmodules; number++) {
        struct pb_torch_module *m = &t->modules[number - 1];

        if (m->object == GONE) {
            *m = (struct pb_torch_module){.walk = t->free_module};
            t->free_module = number;
        } else if (m->object) {
            place(t, number);
        }
    }
}

static struct _object *watch(const struct pb_py *py, struct _object *object)
{
    struct _object *address = py->Py_BuildValue("n", (ssize_t)(uintptr_t)object);
    struct _object *callback = address ? py->PyCFunction_NewEx(&method_gone, address, NULL) : NULL;
    struct _object *weak = callback ? py->PyWeakref_NewRef(object, callback) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(callback);
    py->Py_DecRef(address);
    return weak;
}

/* From 1 on; 0: there are too many. */
static uint32_t free_number(struct pb_torch *t)
{
    uint32_t number;

    if (!t->free_module && t->nmodules == PB_TORCH_MODULES)
        tidy(t);
    if (!t->free_module)
        return t->nmodules < PB_TORCH_MODULES ? ++t->nmodules : 0;
    number = t->free_module;
    t->free_module = t->modules[number - 1].walk;
    return number;
}

static struct pb_torch_module *add(struct pb_torch *t, struct _object *object)
{
    struct _object *weak = watch(&t->self->py, object);
    uint32_t number = weak && t->on ? free_number(t) : 0;

    if (!number) {
        t->self->py.Py_DecRef(weak);
        return NULL;
    }
    t->modules[number - 1] = (struct pb_torch_module){.object = object, .weak = weak};
    t->objects[number - 1] = object;
    t->after[number - 1] = (uint16_t)(number % PB_TORCH_MODULES);
    place(t, number);
    return &t->modules[number - 1];
}

void pb_torch_modules_forget(struct pb_torch *t)
{
    uint32_t n = t->nmodules;

    t->nmodules = t->free_module = t->nnotes = 0;
    t->changes++;
    t->last_root = NULL;
    t->strays = t->strays_due = 0;
    memset(t->places, 0, sizeof t->places);
    for (uint32_t i = 0; i < n; i++) {
        struct _object *weak = t->modules[i].weak;

        t->modules[i] = (struct pb_torch_module){0};
        t->objects[i] = NULL;
        t->self->py.Py_DecRef(weak);
    }
}

uint32_t pb_torch_name(struct pb_torch *t, const char *s, size_t len)
{
    return t->trace ? pb_ring_name(t->trace, s, len) : PB_NULL_NAME;
}

uint32_t pb_torch_type_name(struct pb_torch *t, struct _object *object, char *ret, size_t *ret_len)
{
    const struct pb_py *py = &t->self->py;
    struct _object *type = py->PyObject_Type(object);
    struct _object *name = type ? py->PyObject_GetAttrString(type, "__name__") : NULL;
    ssize_t len = 0;
    const char *s = name ? py->PyUnicode_AsUTF8AndSize(name, &len) : NULL;
    uint32_t id = s ? pb_torch_name(t, s, (size_t)len) : PB_NULL_NAME;

    if (ret) {
        *ret_len = s && len < PB_TORCH_PATH ? (size_t)len : 0;
        if (s)
            memcpy(ret, s, *ret_len);
    }
    py->PyErr_Clear();
    py->Py_DecRef(name);
    py->Py_DecRef(type);
    return id;
}

static void name_it(struct pb_torch *t, struct pb_torch_module *m, const char *path, size_t len)
{
    char operation[PB_TORCH_PATH + 16];

    m->name = pb_torch_name(t, path, len);
    memcpy(operation, path, len);
    memcpy(operation + len, ".forward", 8);
    m->operation = pb_torch_name(t, operation, len + 8);
}

static bool has_parameters(const struct pb_py *py, struct _object *module)
{
    struct _object *dict = py->PyObject_GetAttrString(module, "_parameters");
    bool any = dict && py->PyDict_Size(dict) > 0;

    py->PyErr_Clear();
    py->Py_DecRef(dict);
    return any;
}

/* On the way down a tree. */
struct walk {
    char path[PB_TORCH_PATH];
    size_t len;
    int depth;
    bool first;  /* nothing is named yet */
    bool *roots; /* is there one below that was taken for a root? */
    bool anew;   /* then all names are given anew: they were made without the whole */
};

static bool name_children(struct pb_torch *t, struct _object *object, const struct walk *w);

/* One that was taken for a root, because the whole was not seen, gets its real name. */
static void name_child(struct pb_torch *t, struct _object *child, const char *key, size_t key_len,
                       const struct walk *outer)
{
    struct pb_torch_module *m = pb_torch_module_find(t, child);
    struct walk w = {.len = outer->len, .depth = outer->depth + 1, .first = outer->first,
                     .roots = outer->roots, .anew = outer->anew};
    uint32_t type;
    bool children, parameters;

    if (w.len + key_len + 2 > PB_TORCH_PATH || (m && m->walk == t->walk))
        return;
    memcpy(w.path, outer->path, w.len);
    if (w.len)
        w.path[w.len++] = '.';
    memcpy(w.path + w.len, key, key_len);
    w.len += key_len;
    if (!m && !(m = add(t, child)))
        return;
    m->walk = t->walk;
    if (w.first) {
        *w.roots |= m->root;
        name_children(t, child, &w);
        return;
    }
    type = pb_torch_type_name(t, child, NULL, NULL);
    children = name_children(t, child, &w);
    parameters = has_parameters(&t->self->py, child);
    /* Python may have run meanwhile, and anything may have happened. */
    m = t->on ? pb_torch_module_find(t, child) : NULL;
    if (!m)
        return;
    m->has_children = children;
    m->has_parameters = parameters;
    if (w.anew || !m->name) {
        m->root = false;
        m->type = type;
        name_it(t, m, w.path, w.len);
    }
}

/* True if there are any. */
static bool name_children(struct pb_torch *t, struct _object *object, const struct walk *w)
{
    const struct pb_py *py = &t->self->py;
    struct _object *dict, *key, *child;
    ssize_t at = 0, key_len;
    bool any = false;

    if (w->depth >= DEPTH_MAX)
        return false;
    dict = py->PyObject_GetAttrString(object, "_modules");
    while (dict && t->on && py->PyDict_Next(dict, &at, &key, &child)) {
        const char *s = py->PyUnicode_AsUTF8AndSize(key, &key_len);

        if (!s || child == py->none)
            continue;
        any = true;
        py->Py_IncRef(key);
        py->Py_IncRef(child);
        name_child(t, child, s, (size_t)key_len, w);
        py->Py_DecRef(child);
        py->Py_DecRef(key);
    }
    py->PyErr_Clear();
    py->Py_DecRef(dict);
    return any;
}

/* The root keeps the name of its class, those below it get theirs. */
static struct pb_torch_module *name_tree(struct pb_torch *t, struct _object *root)
{
    struct pb_torch_module *m;
    bool children, parameters, roots = false;
    struct walk w = {.first = true, .roots = &roots};

    t->walk++;
    name_children(t, root, &w);
    w.first = false;
    w.anew = roots;
    t->walk++;
    children = name_children(t, root, &w);
    parameters = has_parameters(&t->self->py, root);
    m = t->on ? pb_torch_module_find(t, root) : NULL;
    if (m) {
        m->has_children = children;
        m->has_parameters = parameters;
    }
    return m;
}

uint32_t pb_torch_numbered(struct pb_torch *t, uint32_t name, uint32_t number)
{
    char text[PB_TORCH_PATH + 16];
    size_t len = 0;
    const char *s = number > 1 && t->trace ? pb_ring_text(t->trace, name, &len) : NULL;
    int n;

    if (!s)
        return name;
    n = snprintf(text, sizeof text, "%.*s#%u", (int)(len < PB_TORCH_PATH ? len : PB_TORCH_PATH), s,
                 number);
    return n > 0 ? pb_torch_name(t, text, (size_t)n) : name;
}

/* The smallest number that no living module of the class has. What has no parameters has none. */
static uint32_t number_for(const struct pb_torch *t, const struct pb_torch_module *m)
{
    uint32_t number = 1;
    uint64_t taken = 0;

    if (!m->has_children && !m->has_parameters)
        return 1;
    for (uint32_t i = 0; i < t->nmodules; i++) {
        const struct pb_torch_module *other = &t->modules[i];

        if (other->number && other->number < 64 && other != m && other->type == m->type &&
            (uintptr_t)other->object > (uintptr_t)GONE)
            taken |= UINT64_C(1) << other->number;
    }
    while (number < 63 && taken >> number & 1)
        number++;
    return number;
}

uint32_t pb_torch_label(struct pb_torch *t, struct pb_torch_module *m)
{
    if (!m->label) {
        m->number = number_for(t, m);
        m->label = pb_torch_numbered(t, m->type, m->number);
    }
    return m->label;
}

static struct pb_torch_module *name_root(struct pb_torch *t, struct _object *object)
{
    char path[PB_TORCH_PATH];
    size_t len = 0;
    uint32_t type = pb_torch_type_name(t, object, path, &len);
    struct pb_torch_module *m = t->on ? pb_torch_module_find(t, object) : NULL;

    if (m) {
        m->root = true;
        m->type = type;
        name_it(t, m, path, len);
    }
    return m;
}

/* Perhaps it was put into the tree after that had been looked at. */
static struct pb_torch_module *look_again(struct pb_torch *t, struct _object *object,
                                          struct _object *root)
{
    struct pb_torch_module *m;

    if (++t->strays < t->strays_due)
        return NULL;
    t->strays = 0;
    t->self->py.Py_IncRef(root);
    name_tree(t, root);
    t->self->py.Py_DecRef(root);
    m = t->on ? pb_torch_module_find(t, object) : NULL;
    if (!m)
        t->strays_due = t->strays_due * 2 < STRAYS_MAX ? t->strays_due * 2 + 1 : STRAYS_MAX;
    return m;
}

struct pb_torch_module *pb_torch_module_meet(struct pb_torch *t, struct _object *object,
                                             const struct pb_torch_call *outer)
{
    struct pb_torch_module *m = NULL;
    struct _object *root = NULL;

    while (outer && outer->outer)
        outer = outer->outer;
    if (outer && outer->module)
        root = outer->module->object;
    if (root && root != GONE)
        m = look_again(t, object, root);
    if (m || !t->on)
        return m;
    /* Classes that were made since have the old slot: what is around this one may be among them. */
    if (!outer && pb_clock_ns() >= t->slots_due_ns)
        pb_torch_slots_put(t);
    if (!t->on || !add(t, object) || !name_root(t, object))
        return NULL;
    return name_tree(t, object);
}
