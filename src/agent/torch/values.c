#include "agent/torch/values.h"

#include "agent/torch/torch.h"

static void find_methods(struct pb_torch_values *v, const struct pb_py *py)
{
    struct _object *tensor = pb_py_attribute(py, "torch", "Tensor");

    if (!v->numel)
        v->numel = tensor ? py->PyObject_GetAttrString(tensor, "numel") : NULL;
    if (!v->data_ptr)
        v->data_ptr = tensor ? py->PyObject_GetAttrString(tensor, "data_ptr") : NULL;
    py->PyErr_Clear();
    py->Py_DecRef(tensor);
}

void pb_torch_values_enter(struct pb_torch *t)
{
    static const char *const dtypes[PB_CUDA_KINDS] = {"float32", "float64", "float16", "bfloat16"};
    const struct pb_py *py = &t->self->py;
    struct pb_torch_values *v = &t->values;
    const struct {
        struct _object **name;
        const char *text;
    } names[] = {{&v->name_dtype, "dtype"},
                 {&v->name_is_cpu, "is_cpu"},
                 {&v->name_training, "training"},
                 {&v->name_param_groups, "param_groups"},
                 {&v->name_lr, "lr"},
                 {&v->name_accumulate_grad, "accumulate_grad"}};

    for (int i = 0; i < PB_CUDA_KINDS; i++)
        if (!v->dtypes[i])
            v->dtypes[i] = pb_py_attribute(py, "torch", dtypes[i]);
    if (!v->float_type)
        v->float_type = pb_py_attribute(py, "builtins", "float");
    if (!v->grad_enabled)
        v->grad_enabled = pb_py_attribute(py, "torch", "is_grad_enabled");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].name)
            *names[i].name = py->PyUnicode_InternFromString(names[i].text);
    find_methods(v, py);
}

/* What a method gives for this tensor, as an integer; -1 when it gives none. */
static int64_t call_method(const struct pb_py *py, struct _object *method, struct _object *tensor)
{
    struct _object *value = method ? py->PyObject_CallFunctionObjArgs(method, tensor, NULL) : NULL;
    int64_t n = value ? py->PyLong_AsLongLong(value) : -1;

    if (n == -1)
        py->PyErr_Clear();
    py->Py_DecRef(value);
    return n;
}

int64_t pb_torch_numel(const struct pb_torch *t, struct _object *tensor)
{
    return call_method(&t->self->py, t->values.numel, tensor);
}

static int kind_of(const struct pb_torch_values *v, const struct _object *dtype)
{
    for (int i = 0; i < PB_CUDA_KINDS; i++)
        if (dtype == v->dtypes[i])
            return i;
    return -1;
}

/*
 * By its address: item() would go through whatever the program has put on top of torch's operators,
 * and wait for a GPU. What has no memory of its own (a wrapper, a fake) gives no address.
 */
static void read_tensor(struct pb_torch *t, struct pb_cuda_value *v, struct _object *tensor,
                        int kind)
{
    const struct pb_py *py = &t->self->py;
    int64_t address = kind >= 0 ? call_method(py, t->values.data_ptr, tensor) : 0;

    if (address <= 0)
        return;
    if (pb_py_consume_true(py, py->PyObject_GetAttr(tensor, t->values.name_is_cpu))) {
        pb_cuda_arrived(&t->cuda, v, true);
        *v = (struct pb_cuda_value){
            .state = PB_CUDA_KNOWN,
            .v = pb_cuda_decode((const unsigned char *)(uintptr_t)address,
                                (enum pb_cuda_kind)kind)};
    } else if (t->cuda.state >= 0 &&
               pb_py_consume_true(py, py->PyObject_GetAttrString(tensor, "is_cuda")) &&
               pb_cuda_ready(&t->cuda, py, pb_clock_ns())) {
        pb_cuda_fetch(&t->cuda, py, v, (uint64_t)address, (enum pb_cuda_kind)kind);
    }
}

void pb_torch_value_read(struct pb_torch *t, struct pb_cuda_value *v, struct _object *tensor)
{
    const struct pb_py *py = &t->self->py;
    uint64_t began = pb_clock_ns();
    struct _object *dtype = py->PyObject_GetAttr(tensor, t->values.name_dtype);
    double d;

    if (dtype) {
        read_tensor(t, v, tensor, kind_of(&t->values, dtype));
    } else {
        py->PyErr_Clear();
        d = py->PyFloat_AsDouble(tensor);
        if (!py->PyErr_Occurred())
            *v = (struct pb_cuda_value){.state = PB_CUDA_KNOWN, .v = d};
        py->PyErr_Clear();
    }
    py->Py_DecRef(dtype);
    pb_torch_add_own_time(t, began);
}

bool pb_torch_is_float(const struct pb_torch *t, struct _object *object)
{
    struct _object *type = t->self->py.PyObject_Type(object);

    t->self->py.Py_DecRef(type);
    return type && type == t->values.float_type;
}

bool pb_torch_is_training(struct pb_torch *t, struct _object *module)
{
    const struct pb_py *py = &t->self->py;
    struct _object *mode = py->PyObject_GetAttr(module, t->values.name_training);
    struct _object *grad = t->values.grad_enabled ? py->PyObject_CallFunctionObjArgs(
                                                        t->values.grad_enabled, NULL) : NULL;
    bool yes = mode && py->PyObject_IsTrue(mode) == 1 && (!grad || py->PyObject_IsTrue(grad) == 1);

    py->PyErr_Clear();
    py->Py_DecRef(grad);
    py->Py_DecRef(mode);
    return yes;
}
