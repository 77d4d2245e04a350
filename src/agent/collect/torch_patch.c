/* Functions of torch that tell what nothing else does: the loss before it is scaled, norms. */
#include <string.h>

#include "agent/collect/torch.h"

static void after_scale(struct pb_torch *t, struct _object *args, struct _object *result);
static void after_norm(struct pb_torch *t, struct _object *args, struct _object *result);
static void after_begin(struct pb_torch *t, struct _object *args, struct _object *result);
static void after_step(struct pb_torch *t, struct _object *args, struct _object *result);

/* Where a function is: the first of its places that this torch has. */
static const struct what {
    const char *places[2][3]; /* module, class or "", name */
    void (*after)(struct pb_torch *t, struct _object *args, struct _object *result);
} whats[PB_TORCH_PATCH_COUNT] = {
    [PB_TORCH_PATCH_SCALE] = {{{"torch.amp.grad_scaler", "GradScaler", "scale"},
                               {"torch.cuda.amp.grad_scaler", "GradScaler", "scale"}},
                              after_scale},
    /* What clip_grad_norm_ calls, where it is apart: seen however that was imported. */
    [PB_TORCH_PATCH_NORM] = {{{"torch.nn.utils.clip_grad", "", "_get_total_norm"},
                              {"torch.nn.utils.clip_grad", "", "clip_grad_norm_"}},
                             after_norm},
    [PB_TORCH_PATCH_NORM_TOO] = {{{"torch.nn.utils", "", "clip_grad_norm_"}}, after_norm},
    /* Torch 1.13 has no hooks for optimizers, but these two in each step. */
    [PB_TORCH_PATCH_STEP_BEGINS] = {{{"torch.autograd.profiler", "record_function", "__enter__"}},
                                    after_begin},
    [PB_TORCH_PATCH_STEP_ENDS] = {{{"torch.optim.optimizer", "Optimizer",
                                    "_optimizer_step_code"}},
                                  after_step},
};

static void after_scale(struct pb_torch *t, struct _object *args, struct _object *result)
{
    if (t->self->py.PyTuple_Size(args) < 2)
        return;
    pb_torch_value_note(t, &t->loss, t->self->py.PyTuple_GetItem(args, 1));
    t->scaled = result;
}

static void after_norm(struct pb_torch *t, struct _object *args, struct _object *result)
{
    (void)args;
    pb_torch_value_note(t, &t->norm, result);
}

static void after_begin(struct pb_torch *t, struct _object *args, struct _object *result)
{
    static const char prefix[] = "Optimizer.step#";
    const struct pb_py *py = &t->self->py;
    struct _object *name = py->PyObject_GetAttrString(py->PyTuple_GetItem(args, 0), "name");
    ssize_t len = 0;
    const char *s = name ? py->PyUnicode_AsUTF8AndSize(name, &len) : NULL;

    (void)result;
    if (s && strncmp(s, prefix, sizeof prefix - 1) == 0)
        pb_torch_step_begins(t);
    py->Py_DecRef(name);
}

static void after_step(struct pb_torch *t, struct _object *args, struct _object *result)
{
    (void)result;
    pb_torch_step_ends(t, t->self->py.PyTuple_GetItem(args, 0));
}

static struct _object *call(struct _object *number, struct _object *args, struct _object *kwargs)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;
    size_t i = (size_t)py->PyLong_AsLongLong(number);
    struct _object *was = t->patches[i].was, *result;

    py->Py_IncRef(was);
    result = py->PyObject_Call(was, args, kwargs);
    py->Py_DecRef(was);
    if (result && t->on && (whats[i].places[0][1][0] == '\0' || py->PyTuple_Size(args) > 0))
        whats[i].after(t, args, result);
    if (result)
        py->PyErr_Clear();
    return result;
}

/* Python keeps a pointer to it. */
static struct pb_py_method method = {
    "probing_call", (struct _object * (*)(struct _object *, struct _object *))(uintptr_t)call,
    PB_PY_VARARGS | PB_PY_KEYWORDS, NULL};

static bool find(struct pb_torch *t, struct pb_torch_patch *p, const char *const place[3])
{
    const struct pb_py *py = &t->self->py;
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *owner = modules && place[0] ? py->PyDict_GetItemString(modules, place[0])
                                                : NULL;

    if (owner && place[1][0])
        owner = py->PyObject_GetAttrString(owner, place[1]);
    else if (owner)
        py->Py_IncRef(owner);
    p->was = owner ? py->PyObject_GetAttrString(owner, place[2]) : NULL;
    py->PyErr_Clear();
    if (p->was) {
        p->owner = owner;
        p->name = place[2];
    } else {
        py->Py_DecRef(owner);
    }
    return p->was != NULL;
}

/* A function does not know whose method it is called as; an instance method does. */
static void make(const struct pb_py *py, struct pb_torch_patch *p, int id, bool bound)
{
    struct _object *number = py->Py_BuildValue("i", id);

    p->function = number ? py->PyCFunction_NewEx(&method, number, NULL) : NULL;
    if (p->function && bound)
        p->ours = py->PyInstanceMethod_New(p->function);
    else
        p->ours = p->function;
    py->PyErr_Clear();
    py->Py_DecRef(number);
}

/* Is it this one that stands there? The class gives the bare function for a method. */
static bool stands(const struct pb_py *py, const struct pb_torch_patch *p,
                   const struct _object *what)
{
    struct _object *now = py->PyObject_GetAttrString(p->owner, p->name);

    py->PyErr_Clear();
    py->Py_DecRef(now);
    return now && now == what;
}

bool pb_torch_patch_put(struct pb_torch *t, enum pb_torch_patch_id id)
{
    const struct pb_py *py = &t->self->py;
    const struct what *w = &whats[id];
    struct pb_torch_patch *p = &t->patches[id];

    if (p->in)
        return true; /* in a forked child: the parent's */
    if (!p->was && !find(t, p, w->places[0]) && !find(t, p, w->places[1]))
        return false;
    if (!p->ours)
        make(py, p, (int)id, w->places[0][1][0] != '\0');
    /* Only where it is what it was: somebody else's own is left alone. */
    p->in = p->ours && stands(py, p, p->was) &&
            py->PyObject_SetAttrString(p->owner, p->name, p->ours) == 0;
    py->PyErr_Clear();
    return p->in;
}

void pb_torch_patches_enter(struct pb_torch *t)
{
    struct _object *apart = pb_torch_attribute(&t->self->py, "torch.nn.utils.clip_grad",
                                               "_get_total_norm");

    pb_torch_patch_put(t, PB_TORCH_PATCH_SCALE);
    pb_torch_patch_put(t, PB_TORCH_PATCH_NORM);
    if (!apart)
        pb_torch_patch_put(t, PB_TORCH_PATCH_NORM_TOO);
    t->self->py.Py_DecRef(apart);
}

void pb_torch_patches_leave(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;

    for (int i = 0; i < PB_TORCH_PATCH_COUNT; i++) {
        struct pb_torch_patch *p = &t->patches[i];

        if (p->in && stands(py, p, p->function))
            py->PyObject_SetAttrString(p->owner, p->name, p->was);
        py->PyErr_Clear();
        p->in = false;
    }
}
