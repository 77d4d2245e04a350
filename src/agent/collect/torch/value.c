/* Numbers that torch has computed: losses and norms. */
#include <stddef.h>
#include <string.h>

#include "agent/collect/torch/torch.h"
#include "base/clock.h"

struct _object *pb_torch_attribute(const struct pb_py *py, const char *module, const char *name)
{
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *m = modules ? py->PyDict_GetItemString(modules, module) : NULL;
    struct _object *value = m ? py->PyObject_GetAttrString(m, name) : NULL;

    py->PyErr_Clear();
    return value;
}

/* What is asked for at every step. */
static void keep_names(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    const struct {
        struct _object **word;
        const char *name;
    } list[] = {{&t->word_dtype, "dtype"}, {&t->word_is_cpu, "is_cpu"},
                {&t->word_training, "training"}, {&t->word_groups, "param_groups"},
                {&t->word_lr, "lr"}, {&t->word_accumulate, "accumulate_grad"}};
    struct _object *tensor = pb_torch_attribute(py, "torch", "Tensor");

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!*list[i].word)
            *list[i].word = py->PyUnicode_InternFromString(list[i].name);
    if (!t->numel)
        t->numel = tensor ? py->PyObject_GetAttrString(tensor, "numel") : NULL;
    if (!t->data_ptr)
        t->data_ptr = tensor ? py->PyObject_GetAttrString(tensor, "data_ptr") : NULL;
    py->PyErr_Clear();
    py->Py_DecRef(tensor);
}

void pb_torch_values_enter(struct pb_torch *t)
{
    static const char *const names[PB_CUDA_KINDS] = {"float32", "float64", "float16", "bfloat16"};

    for (int i = 0; i < PB_CUDA_KINDS; i++)
        if (!t->dtypes[i])
            t->dtypes[i] = pb_torch_attribute(&t->self->py, "torch", names[i]);
    if (!t->float_type)
        t->float_type = pb_torch_attribute(&t->self->py, "builtins", "float");
    if (!t->grad_enabled)
        t->grad_enabled = pb_torch_attribute(&t->self->py, "torch", "is_grad_enabled");
    keep_names(t);
}

/* What a method of this tensor gives, as a whole number; -1 when it gives none. */
static long long ask(const struct pb_py *py, struct _object *method, struct _object *tensor)
{
    struct _object *value = method ? py->PyObject_CallFunctionObjArgs(method, tensor, NULL) : NULL;
    long long n = value ? py->PyLong_AsLongLong(value) : -1;

    if (n == -1)
        py->PyErr_Clear();
    py->Py_DecRef(value);
    return n;
}

/* Takes the reference. */
static bool is_true(const struct pb_py *py, struct _object *value)
{
    bool yes = value && py->PyObject_IsTrue(value) == 1;

    if (!yes)
        py->PyErr_Clear();
    py->Py_DecRef(value);
    return yes;
}

static int kind_of(const struct pb_torch *t, const struct _object *dtype)
{
    for (int i = 0; i < PB_CUDA_KINDS; i++)
        if (dtype == t->dtypes[i])
            return i;
    return -1;
}

/*
 * By its address: item() would go through whatever the program has put on top of torch's operators,
 * and wait for a GPU. What has no memory of its own (a wrapper, a fake) gives no address.
 */
static void note_tensor(struct pb_torch *t, struct pb_cuda_value *v, struct _object *tensor,
                        int kind)
{
    const struct pb_py *py = &t->self->py;
    long long address = kind >= 0 ? ask(py, t->data_ptr, tensor) : 0;

    if (address <= 0)
        return;
    if (is_true(py, py->PyObject_GetAttr(tensor, t->word_is_cpu))) {
        pb_cuda_arrived(&t->cuda, v, true);
        *v = (struct pb_cuda_value){
            .state = PB_CUDA_KNOWN,
            .v = pb_cuda_decode((const unsigned char *)(uintptr_t)address,
                                (enum pb_cuda_kind)kind)};
    } else if (t->cuda.state >= 0 && is_true(py, py->PyObject_GetAttrString(tensor, "is_cuda")) &&
               pb_cuda_ready(&t->cuda, py, pb_clock_ns())) {
        pb_cuda_fetch(&t->cuda, py, v, (uint64_t)address, (enum pb_cuda_kind)kind);
    }
}

void pb_torch_value_note(struct pb_torch *t, struct pb_cuda_value *v, struct _object *tensor)
{
    const struct pb_py *py = &t->self->py;
    uint64_t began = pb_clock_ns();
    struct _object *dtype = py->PyObject_GetAttr(tensor, t->word_dtype);
    double d;

    if (dtype) {
        note_tensor(t, v, tensor, kind_of(t, dtype));
    } else {
        py->PyErr_Clear();
        d = py->PyFloat_AsDouble(tensor);
        if (!py->PyErr_Occurred())
            *v = (struct pb_cuda_value){.state = PB_CUDA_KNOWN, .v = d};
        py->PyErr_Clear();
    }
    py->Py_DecRef(dtype);
    pb_torch_own(t, began);
}

bool pb_torch_is_float(const struct pb_torch *t, struct _object *object)
{
    struct _object *type = t->self->py.PyObject_Type(object);

    t->self->py.Py_DecRef(type);
    return type && type == t->float_type;
}

bool pb_torch_loss_arrived(struct pb_torch *t, struct pb_torch_loss *l, bool drop)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < l->ncoming; i++) {
        struct pb_cuda_value *v = &l->coming[i];

        if (!pb_cuda_arrived(&t->cuda, v, drop))
            l->coming[left++] = *v;
        else if (v->state == PB_CUDA_KNOWN)
            l->sum += v->v;
        else
            l->unknown = true;
    }
    l->ncoming = left;
    return left == 0;
}

void pb_torch_loss_add(struct pb_torch *t, struct _object *tensor)
{
    struct pb_torch_loss *l = &t->loss;
    struct pb_cuda_value v = {0};

    if (l->done) {
        if (t->other.pending)
            pb_torch_other_write(t);
        pb_torch_loss_arrived(t, l, true);
        memset(l, 0, offsetof(struct pb_torch_loss, coming));
    }
    pb_torch_loss_arrived(t, l, false);
    if (l->ncoming < PB_TORCH_COMING && ask(&t->self->py, t->numel, tensor) == 1)
        pb_torch_value_note(t, &v, tensor);
    if (!t->on)
        return;
    l->n++;
    if (v.state == PB_CUDA_KNOWN) {
        l->sum += v.v;
    } else if (v.state == PB_CUDA_COMING && l->ncoming < PB_TORCH_COMING) {
        l->coming[l->ncoming++] = v;
    } else {
        l->unknown = true;
        pb_cuda_arrived(&t->cuda, &v, true);
    }
}
