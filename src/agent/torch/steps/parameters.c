/* Parameters of modules: whose one is, and which has a gradient. */
#include "agent/torch/torch.h"

#define DEPTH_MAX 48
/* Parameters that are looked at for one with a gradient, and for the owner of one. */
#define GRADIENT_LOOKS 256
#define OWNER_LOOKS 16384

struct _object *pb_torch_gradient(const struct pb_torch *t, struct _object *parameter)
{
    const struct pb_py *py = &t->self->py;
    struct _object *grad = py->PyObject_GetAttrString(parameter, "grad");

    py->PyErr_Clear();
    if (grad != py->none)
        return grad;
    py->Py_DecRef(grad);
    return NULL;
}

/* A search for a parameter in a tree of modules: a given one, or one with a gradient. */
struct search {
    struct _object *wanted; /* NULL: any that has a gradient */
    int left;               /* parameters that may still be looked at */
};

static struct _object *find_below(struct pb_torch *t, struct _object *module, int depth,
                                  struct search *s);

static bool fits(const struct pb_torch *t, struct _object *parameter, struct search *s)
{
    struct _object *grad;

    s->left--;
    if (s->wanted)
        return parameter == s->wanted;
    grad = pb_torch_gradient(t, parameter);
    t->self->py.Py_DecRef(grad);
    return grad != NULL;
}

/* Searches the values of a module's dictionary: its parameters, or the modules in it. */
static struct _object *find_among(struct pb_torch *t, struct _object *module, bool modules,
                                  int depth, struct search *s)
{
    const struct pb_py *py = &t->self->py;
    struct _object *dict =
        py->PyObject_GetAttrString(module, modules ? "_modules" : "_parameters");
    struct _object *key, *value, *found = NULL;
    ssize_t at = 0;

    while (dict && !found && s->left > 0 && py->PyDict_Next(dict, &at, &key, &value)) {
        if (value == py->none)
            continue;
        py->Py_IncRef(value);
        if (modules)
            found = find_below(t, value, depth + 1, s);
        else if (fits(t, value, s))
            found = value;
        if (found != value)
            py->Py_DecRef(value);
    }
    py->PyErr_Clear();
    py->Py_DecRef(dict);
    return found;
}

/* The first that fits, as a new reference; or NULL. */
static struct _object *find_below(struct pb_torch *t, struct _object *module, int depth,
                                  struct search *s)
{
    struct _object *found = depth < DEPTH_MAX ? find_among(t, module, false, depth, s) : NULL;

    if (!found && depth < DEPTH_MAX)
        found = find_among(t, module, true, depth, s);
    return found;
}

struct _object *pb_torch_find_gradient(struct pb_torch *t, struct _object *module,
                                       bool *ret_searched)
{
    struct search s = {NULL, GRADIENT_LOOKS};
    struct _object *found;

    t->self->py.Py_IncRef(module);
    found = find_below(t, module, 0, &s);
    t->self->py.Py_DecRef(module);
    if (ret_searched)
        *ret_searched = s.left < GRADIENT_LOOKS;
    return found;
}

/* Label of a module that has the parameter: of an outermost one, or of any that was called. */
static uint32_t label_of_owner(struct pb_torch *t, struct search *s, bool outermost)
{
    const struct pb_py *py = &t->self->py;
    uint32_t n = t->modules.count;

    for (uint32_t i = 0; i < n && i < t->modules.count && s->left > 0; i++) {
        const struct pb_torch_module *m = &t->module_table.list[i];
        uint32_t label = m->label;
        struct _object *module = m->object, *found;

        if (!label || m->root != outermost || (uintptr_t)module <= (uintptr_t)PB_TORCH_GONE)
            continue;
        py->Py_IncRef(module);
        found = find_below(t, module, 0, s);
        py->Py_DecRef(module);
        py->Py_DecRef(found);
        if (found)
            return label;
    }
    return PB_NULL_NAME;
}

uint32_t pb_torch_model_of_parameter(struct pb_torch *t, struct _object *parameter)
{
    struct search s = {parameter, OWNER_LOOKS};
    uint32_t label = label_of_owner(t, &s, true);

    return label ? label : label_of_owner(t, &s, false);
}
