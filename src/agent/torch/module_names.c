/* Names of modules: a root has that of its class, those below it their dotted path. */
#include <stdio.h>
#include <string.h>

#include "agent/torch/torch.h"

/* Modules inside modules. */
#define DEPTH_MAX 48
/* Modules that are made anew at every step are in no tree: trees are walked ever less often. */
#define STRAYS_MAX 4096

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

static void set_name(struct pb_torch *t, struct pb_torch_module *m, const char *path, size_t len)
{
    char operation[PB_TORCH_PATH + 16];

    m->name = pb_torch_name(t, path, len);
    memcpy(operation, path, len);
    memcpy(operation + len, ".forward", 8);
    m->operation = pb_torch_name(t, operation, len + 8);
    m->shown = pb_progress_name(t->self, path, len);
}

static bool has_parameters(const struct pb_py *py, struct _object *module)
{
    struct _object *dict = py->PyObject_GetAttrString(module, "_parameters");
    bool any = dict && py->PyDict_Size(dict) > 0;

    py->PyErr_Clear();
    py->Py_DecRef(dict);
    return any;
}

/* A walk down a tree: at first for entries only, then for names. */
struct walk {
    char path[PB_TORCH_PATH];
    size_t len;
    int depth;
    bool entries_only;
    bool *found_root; /* set when a module below had been taken for a root */
    bool rename;      /* gives every module its name again, since one was named without the whole */
};

static bool walk_children(struct pb_torch *t, struct _object *object, const struct walk *w);

/* Sets what the second walk knows of a module. Python may have run, and removed the entry. */
static void set_child(struct pb_torch *t, struct _object *child, const struct walk *w)
{
    uint32_t type = pb_torch_type_name(t, child, NULL, NULL);
    bool children = walk_children(t, child, w);
    bool parameters = has_parameters(&t->self->py, child);
    struct pb_torch_module *m = t->on ? pb_torch_module_find(t, child) : NULL;

    if (!m)
        return;
    m->has_children = children;
    m->has_parameters = parameters;
    if (w->rename || !m->name) {
        m->root = false;
        m->type = type;
        set_name(t, m, w->path, w->len);
    }
}

static void walk_child(struct pb_torch *t, struct _object *child, const char *key, size_t key_len,
                       const struct walk *outer)
{
    struct pb_torch_module *m = pb_torch_module_find(t, child);
    struct walk w = {.len = outer->len, .depth = outer->depth + 1,
                     .entries_only = outer->entries_only, .found_root = outer->found_root,
                     .rename = outer->rename};

    if (w.len + key_len + 2 > PB_TORCH_PATH || (m && m->walk == t->modules.walk))
        return;
    memcpy(w.path, outer->path, w.len);
    if (w.len)
        w.path[w.len++] = '.';
    memcpy(w.path + w.len, key, key_len);
    w.len += key_len;
    if (!m && !(m = pb_torch_module_add(t, child)))
        return;
    m->walk = t->modules.walk;
    if (!w.entries_only) {
        set_child(t, child, &w);
        return;
    }
    *w.found_root |= m->root;
    walk_children(t, child, &w);
}

/* True if there are any. */
static bool walk_children(struct pb_torch *t, struct _object *object, const struct walk *w)
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
        walk_child(t, child, s, (size_t)key_len, w);
        py->Py_DecRef(child);
        py->Py_DecRef(key);
    }
    py->PyErr_Clear();
    py->Py_DecRef(dict);
    return any;
}

/* Names everything below a root; the root keeps the name of its class. */
static struct pb_torch_module *name_tree(struct pb_torch *t, struct _object *root)
{
    struct pb_torch_module *m;
    bool children, parameters, found_root = false;
    struct walk w = {.entries_only = true, .found_root = &found_root};

    t->modules.walk++;
    walk_children(t, root, &w);
    w.entries_only = false;
    w.rename = found_root;
    t->modules.walk++;
    children = walk_children(t, root, &w);
    parameters = has_parameters(&t->self->py, root);
    m = t->on ? pb_torch_module_find(t, root) : NULL;
    if (m) {
        m->has_children = children;
        m->has_parameters = parameters;
    }
    return m;
}

uint32_t pb_torch_numbered_name(struct pb_torch *t, uint32_t name, uint32_t number)
{
    char text[PB_TORCH_PATH + 16];
    size_t len = 0;
    const char *s = number > 1 && t->trace.ring ? pb_ring_text(t->trace.ring, name, &len) : NULL;
    int n;

    if (!s)
        return name;
    n = snprintf(text, sizeof text, "%.*s#%u", (int)(len < PB_TORCH_PATH ? len : PB_TORCH_PATH), s,
                 number);
    return n > 0 ? pb_torch_name(t, text, (size_t)n) : name;
}

/* The lowest number that no living module of the class has. */
static uint32_t free_number(const struct pb_torch *t, const struct pb_torch_module *m)
{
    uint32_t number = 1;
    uint64_t taken = 0;

    /* A loss, a ReLU: many of them are alike. */
    if (!m->has_children && !m->has_parameters)
        return 1;
    for (uint32_t i = 0; i < t->modules.count; i++) {
        const struct pb_torch_module *other = &t->module_table.list[i];

        if (other->number && other->number < 64 && other != m && other->type == m->type &&
            (uintptr_t)other->object > (uintptr_t)PB_TORCH_GONE)
            taken |= UINT64_C(1) << other->number;
    }
    while (number < 63 && taken >> number & 1)
        number++;
    return number;
}

uint32_t pb_torch_module_label(struct pb_torch *t, struct pb_torch_module *m)
{
    if (!m->label) {
        m->number = free_number(t, m);
        m->label = pb_torch_numbered_name(t, m->type, m->number);
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
        set_name(t, m, path, len);
    }
    return m;
}

/* A module may have been put into a tree after that was walked. NULL: it is in none. */
static struct pb_torch_module *search_tree(struct pb_torch *t, struct _object *object,
                                           struct _object *root)
{
    struct pb_torch_modules *modules = &t->modules;
    struct pb_torch_module *m;

    if (++modules->strays < modules->strays_limit)
        return NULL;
    modules->strays = 0;
    t->self->py.Py_IncRef(root);
    name_tree(t, root);
    t->self->py.Py_DecRef(root);
    m = t->on ? pb_torch_module_find(t, object) : NULL;
    if (!m)
        modules->strays_limit = modules->strays_limit * 2 < STRAYS_MAX
                                    ? modules->strays_limit * 2 + 1 : STRAYS_MAX;
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
    if (root && root != PB_TORCH_GONE)
        m = search_tree(t, object, root);
    if (m || !t->on)
        return m;
    /* Classes that were made since have the old slot: what is around this one may be of them. */
    if (!outer && pb_clock_ns() >= t->slots.not_before_ns)
        pb_torch_slots_install(t);
    if (!t->on || !pb_torch_module_add(t, object) || !name_root(t, object))
        return NULL;
    return name_tree(t, object);
}
