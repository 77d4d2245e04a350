/* Calls from Python: what stands in place of methods of ProcessGroup and Work. */
#include <pthread.h>
#include <string.h>

#include "agent/comm/comm.h"

/* An operation is not found by its handle any more. */
static void forget_handle(struct pb_comm *c, struct pb_comm_op *op)
{
    c->ops.handles -= op->work != NULL;
    op->work = NULL;
}

/* Python will say no more of an operation. */
static void release_handle(struct pb_comm *c, struct pb_comm_op *op)
{
    struct _object *weak = op->weak;

    forget_handle(c, op);
    op->weak = NULL;
    c->self->py.Py_DecRef(weak);
    pb_comm_op_release(op);
}

/* Readers outside see which operation this thread is in. */
static void show(struct pb_comm *c, const struct pb_comm_op *op)
{
    struct pb_progress_thread *p = pb_progress_thread(c->self);

    p->group = op->shown_group;
    p->collective_seq = op->row[PB_COMM_AT_seq].i;
    p->collective_ns = op->began_ns;
    p->collective = op->shown;
}

static void show_none(struct pb_comm *c)
{
    struct pb_progress_thread *p = pb_progress_thread(c->self);

    p->collective = p->group = 0;
}

/* No exception pending. NULL: too many are under way. */
static struct pb_comm_op *begin(struct pb_comm *c, size_t kind, struct _object *args,
                                struct _object *kwargs)
{
    struct pb_comm_op *op = pb_comm_op_claim(c);

    if (!op)
        return NULL;
    pb_comm_describe(c, kind, args, kwargs, op);
    op->name = pb_comm_kinds[kind].op;
    op->shown = c->ops_shown[kind];
    pb_comm_op_begin(c, op, op->device ? c->states.enqueued : c->states.started);
    pb_comm_time_begin(c, op->began_ns);
    op->caller = (uintptr_t)pthread_self();
    c->ops.calls++;
    show(c, op);
    return op;
}

/* Recording on a stream waits where the GPU is far behind, or hangs: the GIL is given up. */
static void mark(struct pb_comm *c, struct pb_comm_op *op,
                 void (*put)(struct pb_comm *, struct pb_comm_op *))
{
    void *state = c->self->py.PyEval_SaveThread();

    put(c, op);
    c->self->py.PyEval_RestoreThread(state);
}

/* The stream has waited for it: an event there is behind its end. No exception pending. */
static void mark_end(struct pb_comm *c, struct pb_comm_op *op)
{
    mark(c, op, pb_comm_gpu_ends);
    if (op->marks != PB_COMM_BOTH) /* its end will not be seen */
        pb_comm_op_end(c, op, c->states.dropped, 0);
}

/* No exception pending. */
static void keep_handle(struct pb_comm *c, struct pb_comm_op *op, struct _object *work)
{
    op->work = work;
    c->ops.handles++;
    op->weak = c->self->py.PyWeakref_NewRef(work, NULL);
    c->self->py.PyErr_Clear();
}

/* The call has returned; an exception is pending when there is no result. */
static void call_returned(struct pb_comm *c, struct pb_comm_op *op, struct _object *result)
{
    const struct pb_py *py = &c->self->py;
    uint64_t now = pb_clock_ns();

    pb_comm_time_end(c, now);
    if (result && op->coalesced)
        return; /* its handle is that of all of them, when they end */
    if (result && result != py->none) {
        keep_handle(c, op, result);
        return;
    }
    if (result && op->by_wait)
        mark_end(c, op);
    if (!result || !op->device)
        pb_comm_op_end(c, op, result ? c->states.done : c->states.failed, now);
    release_handle(c, op);
}

/* In place of a method of ProcessGroup: number of the method, (group, …). */
static struct _object *on_operation(struct _object *number, struct _object *args,
                                    struct _object *kwargs)
{
    struct pb_comm *c = pb_comm_state(pb_self());
    const struct pb_py *py = &c->self->py;
    size_t kind = (size_t)py->PyLong_AsLongLong(number);
    struct pb_comm_op *op = c->on ? begin(c, kind, args, kwargs) : NULL;
    bool muted = op && pb_comm_mute_begin(c, kind, args, kwargs, op);
    struct _object *result;

    if (muted && op->device) {
        op->by_wait = true;
        mark(c, op, pb_comm_gpu_begins);
    }
    result = py->PyObject_Call(c->methods[kind].call, args, kwargs);
    if (muted)
        pb_comm_mute_end(c);
    if (op) {
        op->caller = 0;
        c->ops.calls--;
        show_none(c);
    }
    /* The collector may have left meanwhile, and come again. */
    if (op && result && c->on && op->ring_number == c->ring_number)
        pb_comm_describe_after(c, kind, args, op);
    if (op)
        call_returned(c, op, result);
    return result;
}

/* Coalesced operations have gone to the GPU; work is the handle of all of them. */
static void end_coalesced(struct pb_comm *c, struct _object *work)
{
    const struct pb_py *py = &c->self->py;

    for (size_t i = 0; i < c->ops.used; i++) {
        struct pb_comm_op *op = &c->ops.list[i];

        if (!op->coalesced || op->caller || op->work || op->life != PB_COMM_OPEN)
            continue;
        if (work && work != py->none) {
            keep_handle(c, op, work);
        } else {
            if (!work)
                pb_comm_op_end(c, op, c->states.failed, pb_clock_ns());
            release_handle(c, op);
        }
    }
}

enum { START_COALESCING, END_COALESCING, REGISTER, SET_SEQUENCE };

/* In place of other methods of ProcessGroup: number of the method, (group, …). */
static struct _object *on_maker(struct _object *number, struct _object *args,
                                 struct _object *kwargs)
{
    struct pb_comm *c = pb_comm_state(pb_self());
    const struct pb_py *py = &c->self->py;
    size_t which = (size_t)py->PyLong_AsLongLong(number);
    struct _object *result;

    if (which == START_COALESCING)
        c->gpu.coalescing++;
    result = py->PyObject_Call(c->makers[which].call, args, kwargs);
    if (which == END_COALESCING || (which == START_COALESCING && !result))
        c->gpu.coalescing -= c->gpu.coalescing > 0;
    if (!c->on)
        return result;
    if (which == END_COALESCING)
        end_coalesced(c, result);
    if (which == REGISTER && py->PyTuple_Size(args) > 0)
        pb_comm_watch_forget_backends(c, py->PyTuple_GetItem(args, 0));
    if (result && which >= REGISTER)
        pb_comm_events_poll(c);
    return result;
}

/* A wait for one operation has returned; an exception is pending when it failed. */
static void wait_returned(struct pb_comm *c, struct pb_comm_op *op, bool good, uint64_t now)
{
    bool by_wait = op->coalesced || op->by_wait;

    forget_handle(c, op);
    op->coalesced = false;
    if (good && by_wait)
        mark_end(c, op);
    if (!good || !op->device)
        pb_comm_op_end(c, op, good ? c->states.done : c->states.failed, now);
    /* Torch says only that it is over. */
    if (!good && op->row[PB_COMM_AT_state].name == c->states.done)
        pb_comm_op_amend(c, op, c->states.failed, now);
    release_handle(c, op);
}

/* The first of the operations that a handle stands for, or NULL. */
static const struct pb_comm_op *find_op(const struct pb_comm *c, const struct _object *work)
{
    for (size_t i = 0; c->ops.handles > 0 && work && i < c->ops.used; i++)
        if (c->ops.list[i].work == work)
            return &c->ops.list[i];
    return NULL;
}

/* The same for all operations that a handle stands for. */
static void handle_waited(struct pb_comm *c, const struct _object *work, bool good, uint64_t now)
{
    int left = c->ops.handles;

    for (size_t i = 0; left > 0 && i < c->ops.used; i++) {
        left -= c->ops.list[i].work != NULL;
        if (c->ops.list[i].work == work)
            wait_returned(c, &c->ops.list[i], good, now);
    }
}

/* In place of a method of Work: number of the method, (work, …). */
static struct _object *on_wait(struct _object *number, struct _object *args,
                               struct _object *kwargs)
{
    struct pb_comm *c = pb_comm_state(pb_self());
    const struct pb_py *py = &c->self->py;
    size_t which = (size_t)py->PyLong_AsLongLong(number);
    struct _object *work = py->PyTuple_Size(args) > 0 ? py->PyTuple_GetItem(args, 0) : NULL;
    const struct pb_comm_op *op = c->on ? find_op(c, work) : NULL;
    struct _object *result;
    uint64_t now;

    if (op)
        show(c, op);
    pb_comm_time_begin(c, pb_clock_ns());
    result = py->PyObject_Call(c->waits[which].call, args, kwargs);
    show_none(c);
    now = pb_clock_ns();
    pb_comm_time_end(c, now);
    if (c->on && work)
        handle_waited(c, work, result != NULL, now);
    return result;
}

#define CALLABLE(f) \
    ((struct _object * (*)(struct _object *, struct _object *))(uintptr_t)(f))

/* Python keeps pointers to these. */
static struct pb_py_method operations[] = {
#define X(method, op, data, role) \
    {#method, CALLABLE(on_operation), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    PB_COMM_METHODS(X)
#undef X
};
static struct pb_py_method wait_methods[] = {
    {"wait", CALLABLE(on_wait), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    {"synchronize", CALLABLE(on_wait), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
};
static struct pb_py_method makers[] = {
    [START_COALESCING] = {"_start_coalescing", CALLABLE(on_maker),
                          PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    [END_COALESCING] = {"_end_coalescing", CALLABLE(on_maker), PB_PY_VARARGS | PB_PY_KEYWORDS,
                        NULL},
    [REGISTER] = {"_register_backend", CALLABLE(on_maker), PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
    [SET_SEQUENCE] = {"_set_sequence_number_for_group", CALLABLE(on_maker),
                      PB_PY_VARARGS | PB_PY_KEYWORDS, NULL},
};

int pb_comm_calls_enter(struct pb_comm *c, struct _object *group, struct _object *work,
                        struct pb_err *err)
{
    const struct pb_py *py = &c->self->py;
    int found = 0;

    for (size_t i = 0; pb_comm_kinds[i].method; i++)
        found += pb_comm_method_install(py, &c->methods[i], group, &operations[i], i);
    for (size_t i = 0; i < PB_COMM_WAITS; i++)
        pb_comm_method_install(py, &c->waits[i], work, &wait_methods[i], i);
    for (size_t i = 0; i < PB_COMM_MAKERS; i++)
        pb_comm_method_install(py, &c->makers[i], group, &makers[i], i);
    return found ? 0 : pb_err_set(err, PB_FAIL, "torch's process groups have no known methods");
}

void pb_comm_calls_leave(struct pb_comm *c)
{
    const struct pb_py *py = &c->self->py;

    for (size_t i = 0; pb_comm_kinds[i].method; i++)
        pb_comm_method_restore(py, &c->methods[i], pb_comm_kinds[i].method);
    for (size_t i = 0; i < PB_COMM_WAITS; i++)
        pb_comm_method_restore(py, &c->waits[i], wait_methods[i].name);
    for (size_t i = 0; i < PB_COMM_MAKERS; i++)
        pb_comm_method_restore(py, &c->makers[i], makers[i].name);
    for (size_t i = 0; i < c->ops.used; i++)
        if (c->ops.list[i].work)
            release_handle(c, &c->ops.list[i]);
}

/*
 * A handle of work on a GPU is not asked: it would ask the driver in a way that breaks a graph that
 * somebody captures.
 */
static void poll_handle(struct pb_comm *c, struct pb_comm_op *op, uint64_t now)
{
    const struct pb_py *py = &c->self->py;
    struct _object *work = op->weak ? py->PyObject_CallFunction(op->weak, NULL) : NULL;
    bool unmarked = !op->by_torch;

    if (op->device)
        unmarked = (op->coalesced || op->by_wait) && op->marks != PB_COMM_BOTH;
    py->PyErr_Clear();
    if (!work)
        return;
    if (work == py->none) {
        if (unmarked)
            pb_comm_op_end(c, op, c->states.dropped, 0);
        release_handle(c, op);
    } else if (unmarked && !op->device &&
               pb_py_consume_true(py, pb_py_call(py, work, "is_completed"))) {
        pb_comm_op_end(c, op, c->states.done, now);
        release_handle(c, op);
    }
    py->Py_DecRef(work);
}

void pb_comm_calls_poll(struct pb_comm *c, uint64_t now)
{
    for (size_t i = 0; i < c->ops.used; i++)
        if (c->ops.list[i].work)
            poll_handle(c, &c->ops.list[i], now);
}
