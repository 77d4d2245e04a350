#include "agent/torch/backward/norm.h"

#include "agent/torch/torch.h"

/* The norm of all gradients is that of their norms, which were stacked for it. */
void pb_torch_norm_after_stack(struct pb_torch *t, struct _object *result)
{
    t->norm.stacked = result;
}

/* Whether every rank has the whole of a DTensor. */
static bool is_replicated(const struct pb_py *py, struct _object *tensor)
{
    struct _object *placements = py->PyObject_GetAttrString(tensor, "placements");
    ssize_t n = placements ? py->PyTuple_Size(placements) : -1;
    bool yes = n >= 0;

    for (ssize_t i = 0; yes && i < n; i++)
        yes = pb_py_consume_true(
            py, pb_py_call(py, py->PyTuple_GetItem(placements, i), "is_replicate"));
    py->PyErr_Clear();
    py->Py_DecRef(placements);
    return yes;
}

/* Of a DTensor only what every rank has is the norm. */
static void read_norm(struct pb_torch *t, struct _object *norm)
{
    const struct pb_py *py = &t->self->py;
    struct _object *local = py->PyObject_GetAttrString(norm, "_local_tensor");

    py->PyErr_Clear();
    if (!local || is_replicated(py, norm))
        pb_torch_value_read(t, &t->norm.value, local ? local : norm);
    py->Py_DecRef(local);
}

void pb_torch_norm_after_norm(struct pb_torch *t, struct _object *input, struct _object *result)
{
    if (t->norm.stacked && input == t->norm.stacked &&
        pb_torch_called_from(t, t->norm.clip_globals))
        read_norm(t, result);
}

/* FullyShardedDataParallel.clip_grad_norm_ clamps the factor that it has made of the norm. */
void pb_torch_norm_after_clamp(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *frame, *locals, *norm;

    if (!t->norm.fsdp_globals || py->PyEval_GetGlobals() != t->norm.fsdp_globals)
        return;
    frame = pb_torch_frame(py, 0);
    locals = frame ? py->PyObject_GetAttrString(frame, "f_locals") : NULL;
    norm = locals ? py->PyMapping_GetItemString(locals, "total_norm") : NULL;
    py->PyErr_Clear();
    if (norm)
        read_norm(t, norm);
    py->Py_DecRef(norm);
    py->Py_DecRef(locals);
    py->Py_DecRef(frame);
}

void pb_torch_norm_after_unscale(struct pb_torch *t, struct _object *inverse)
{
    pb_torch_value_read(t, &t->norm.unscale, inverse);
}

void pb_torch_norm_poll(struct pb_torch *t)
{
    if (!t->norm.fsdp_globals)
        t->norm.fsdp_globals = pb_py_attribute(
            &t->self->py, "torch.distributed.fsdp.fully_sharded_data_parallel", "__dict__");
    if (t->norm.fsdp_globals)
        pb_torch_builtin_install(t, PB_TORCH_BUILTIN_CLAMP);
}

bool pb_torch_norm_enter(struct pb_torch *t)
{
    const struct pb_py *py = &t->self->py;
    struct _object *newer = pb_py_attribute(py, "torch.nn.utils.clip_grad", "_get_total_norm");
    bool seen;

    t->norm.stacked = NULL;
    if (!t->norm.clip_globals)
        t->norm.clip_globals = pb_py_attribute(py, "torch.nn.utils.clip_grad", "__dict__");
    pb_torch_builtin_install(t, PB_TORCH_BUILTIN_STACK);
    seen = pb_torch_builtin_install(t, PB_TORCH_BUILTIN_NORM);
    pb_torch_builtin_install(t, PB_TORCH_BUILTIN_UNSCALE);
    if (!newer) {
        seen |= pb_torch_builtin_install(t, PB_TORCH_BUILTIN_NORM_OLD);
        pb_torch_builtin_install(t, PB_TORCH_BUILTIN_MAX_OLD);
    }
    py->Py_DecRef(newer);
    pb_torch_norm_poll(t);
    return seen;
}

void pb_torch_norm_forget(struct pb_torch *t)
{
    pb_cuda_arrived(&t->cuda, &t->norm.value, true);
    pb_cuda_arrived(&t->cuda, &t->norm.unscale, true);
    t->norm.value = t->norm.unscale = (struct pb_cuda_value){0};
}
