#include "agent/torch/steps/loaders.h"

#include <string.h>

#include "agent/torch/torch.h"

#define NESTING_MAX 4

/* The first thing with a shape in a batch: tensor, tuple or list of such, or dict. Borrowed. */
static struct _object *first_of(const struct pb_py *py, struct _object *batch)
{
    struct _object *key, *value = NULL;
    ssize_t at = 0;

    if (py->PyTuple_Size(batch) > 0)
        return py->PyTuple_GetItem(batch, 0);
    py->PyErr_Clear();
    if (py->PyList_Size(batch) > 0)
        return py->PyList_GetItem(batch, 0);
    py->PyErr_Clear();
    if (py->PyDict_Size(batch) > 0 && py->PyDict_Next(batch, &at, &key, &value))
        return value;
    py->PyErr_Clear();
    return NULL;
}

/* Samples in a batch, 0 when that cannot be told. */
static int64_t batch_size(const struct pb_py *py, struct _object *batch)
{
    struct _object *shape = NULL, *inside = NULL;
    int64_t n = 0;

    for (int i = 0; batch && !shape && i < NESTING_MAX; i++) {
        shape = py->PyObject_GetAttrString(batch, "shape");
        py->PyErr_Clear();
        if (shape)
            break;
        if (!inside && (inside = py->PyObject_GetAttrString(batch, "data"))) {
            batch = inside; /* a UserDict */
            continue;
        }
        py->PyErr_Clear();
        batch = first_of(py, batch);
    }
    if (shape && py->PyTuple_Size(shape) > 0)
        n = py->PyLong_AsLongLong(py->PyTuple_GetItem(shape, 0));
    py->PyErr_Clear();
    py->Py_DecRef(inside);
    py->Py_DecRef(shape);
    return n > 0 ? n : 0;
}

/* Borrowed, for comparing: what an attribute holds. */
static struct _object *peek(const struct pb_py *py, struct _object *object, const char *name)
{
    struct _object *value = py->PyObject_GetAttrString(object, name);

    py->PyErr_Clear();
    py->Py_DecRef(value);
    return value;
}

/* A data set whose order depends on the epoch is told that, as a sampler is. */
static int64_t epoch_of_data(const struct pb_py *py, struct _object *iterator)
{
    struct _object *data = py->PyObject_GetAttrString(iterator, "_dataset");
    struct _object *tell = data ? py->PyObject_GetAttrString(data, "set_epoch") : NULL;
    int64_t n;

    py->PyErr_Clear();
    n = tell ? pb_py_int(py, data, "epoch") : -1;
    py->Py_DecRef(tell);
    py->Py_DecRef(data);
    return n;
}

/*
 * Epoch that a sampler has been told by set_epoch(), or counts itself; -1: it does not know. It may
 * stand behind others, as Accelerate puts one before the program's own.
 */
static int64_t epoch_of(const struct pb_py *py, struct _object *iterator)
{
    struct _object *at = py->PyObject_GetAttrString(iterator, "_index_sampler"), *next;
    int64_t n = -1;

    for (int i = 0; at && n < 0 && i < NESTING_MAX; i++) {
        py->PyErr_Clear();
        n = pb_py_int(py, at, "epoch");
        next = py->PyObject_GetAttrString(at, "sampler");
        if (!next) {
            py->PyErr_Clear();
            next = py->PyObject_GetAttrString(at, "batch_sampler");
        }
        py->Py_DecRef(at);
        at = next;
    }
    py->PyErr_Clear();
    py->Py_DecRef(at);
    if (n < 0)
        n = epoch_of_data(py, iterator);
    return n >= 0 ? n : -1;
}

/* Entry of this data set, or that of the one whose last request is the oldest. */
static struct pb_torch_loader *entry_for(struct pb_torch *t, struct _object *data)
{
    struct pb_torch_loader *old = &t->loaders.list[0];

    for (int i = 0; i < PB_TORCH_LOADERS; i++) {
        struct pb_torch_loader *f = &t->loaders.list[i];

        if (f->data && f->data == data)
            return f;
        if (f->used < old->used)
            old = f;
    }
    if (t->loaders.main == old)
        t->loaders.main = NULL;
    *old = (struct pb_torch_loader){.data = data, .epoch = -1, .epoch_before = -1, .length = -1};
    return old;
}

/* Whether this pass is for training has to be seen again. */
static void begin_pass(struct pb_torch *t, struct pb_torch_loader *f, struct _object *iterator)
{
    const struct pb_py *py = &t->self->py;

    f->steps_before = f->pass ? t->steps.number : 0;
    f->pass++;
    f->began_before = f->began;
    f->began = t->loaders.requests;
    f->epoch_before = f->epoch;
    f->epoch = epoch_of(py, iterator);
    f->length = pb_torch_loader_knows_epoch(f) && pb_torch_position_wanted(t)
                    ? pb_py_call_int(py, iterator, "__len__") : -1;
    f->trains = f->ended = false;
    f->nsizes = 0;
}

/* Entry of the data set that an iterator is on. No exception pending where there is a batch. */
static struct pb_torch_loader *loader_of(struct pb_torch *t, struct _object *iterator,
                                         bool has_batch)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_loader *f = t->loaders.current;
    int64_t number;

    if (!has_batch) {
        for (int i = 0; i < PB_TORCH_LOADERS; i++)
            if (t->loaders.list[i].iterator == iterator)
                return &t->loaders.list[i];
        return NULL;
    }
    number = pb_py_int(py, iterator, "_num_yielded"); /* of the batch in its pass, from 1 on */
    if (number == 1 || !f || f->iterator != iterator) {
        f = entry_for(t, peek(py, iterator, "_dataset"));
        if (number == 1 || !f->pass)
            begin_pass(t, f, iterator);
        f->iterator = iterator;
    }
    f->fetched = number;
    return f;
}

/* A batch has been handed out after so long; NULL: the pass has ended. */
static void add_request(struct pb_torch *t, struct _object *iterator, struct _object *batch,
                        uint64_t ns)
{
    uint64_t began = pb_clock_ns();
    struct pb_torch_loader *f = loader_of(t, iterator, batch != NULL);
    int64_t size = batch ? batch_size(&t->self->py, batch) : 0;

    if (!f)
        return;
    f->data_ns += ns;
    f->used = ++t->loaders.requests;
    if (!batch)
        f->ended = true;
    else
        f->touched = true;
    if (batch && f->nsizes < PB_TORCH_BATCHES_AHEAD)
        f->sizes[f->nsizes++] = size;
    t->loaders.idle_steps = 0;
    t->loaders.current = f;
    t->loaders.has_new_batch = true;
    pb_torch_add_own_time(t, began);
}

struct _object *pb_torch_on_next(struct _object *iterator)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    struct pb_torch_thread *th = t->on ? pb_torch_thread(t) : NULL;
    struct pb_progress_before before;
    struct pb_torch_part part;
    struct _object *batch;
    uint64_t ns = 0;

    if (!th)
        return t->slots.next_original(iterator);
    pb_torch_part_begin(t, &part, pb_clock_ns());
    before = pb_progress_begin(th->progress, PB_PHASE_DATA, part.began_ns);
    th->fetching++;
    batch = t->slots.next_original(iterator);
    pb_progress_end(th->progress, &before);
    if (th->fetching)
        th->fetching--;
    if (!t->on)
        return batch;
    /* A loader inside of another, or in a thread that fetches ahead: no step waits for that. */
    if (!th->fetching && pb_torch_steps_is_thread(t))
        ns = pb_torch_part_end(t, &part, pb_clock_ns());
    add_request(t, iterator, batch, ns);
    return batch;
}

/*
 * The first forward after a batch says what that is for; a loss that follows it knows no better. A
 * model without gradients may come before the one that is trained, which then says it.
 */
static bool is_for_step(struct pb_torch *t, bool training, bool has_children)
{
    if (t->loaders.current && !t->loaders.has_new_batch && (t->loaders.training || !has_children))
        return t->loaders.training || t->loaders.current->trains;
    for (int i = 0; i < PB_TORCH_LOADERS && t->loaders.list[i].used; i++) {
        struct pb_torch_loader *f = &t->loaders.list[i];

        if (training && (f->touched || (f == t->loaders.current && !f->ended)))
            f->trains = true;
        f->touched = false;
    }
    t->loaders.training = training;
    t->loaders.has_new_batch = false;
    return training || (t->loaders.current && t->loaders.current->trains);
}

void pb_torch_loaders_forward(struct pb_torch *t, bool training, bool has_children, uint64_t ns)
{
    if (is_for_step(t, training, has_children))
        t->steps.sums.forward_ns += ns;
    else if (t->loaders.current)
        t->loaders.current->forward_ns += ns;
}

void pb_torch_loaders_backward(struct pb_torch *t)
{
    t->loaders.training = true;
    if (t->loaders.current && !t->loaders.current->ended)
        t->loaders.current->trains = true;
}

/*
 * Samples of the batches that this step consumed. One batch more than there were backward passes
 * has been fetched ahead and stays; where still more come, the loop puts several into one pass.
 */
static int64_t count_samples(const struct pb_torch_loader *f, uint32_t backwards,
                             uint32_t *ret_batches, bool *ret_greedy)
{
    uint32_t n = f->nsizes;
    int64_t total = 0;

    *ret_greedy = f->greedy || (backwards && n > backwards + 1);
    if (!*ret_greedy && backwards && n == backwards + 1)
        n--;
    for (uint32_t i = 0; i < n; i++)
        total += f->sizes[i];
    *ret_batches = n;
    return total;
}

/*
 * An epoch is a pass over the data that was there first; over other data when that has ended or
 * was not asked for a whole pass.
 */
static void count_epoch(struct pb_torch *t)
{
    struct pb_torch_loader *f = t->loaders.current, *m = t->loaders.main;

    if (!f || !f->trains)
        return;
    if (m && f != m && !m->ended && (f->pass < 2 || m->used > f->began_before))
        return;
    if (t->steps.epoch == PB_NULL_INT)
        t->steps.epoch = 0;
    else if (m && (f != m || f->pass != t->loaders.main_pass))
        t->steps.epoch++;
    if (t->steps.epoch_source == PB_TORCH_BY_EXPRESSION) {
        t->loaders.main = f;
        t->loaders.main_pass = f->pass;
        return;
    }
    if (pb_torch_loader_knows_epoch(f)) {
        t->steps.epoch = f->epoch;
        t->steps.epoch_source = PB_TORCH_BY_SAMPLER;
    } else if (f != m || f->pass != t->loaders.main_pass) {
        t->steps.epoch_source = PB_TORCH_BY_INJECTION;
    }
    t->loaders.main = f;
    t->loaders.main_pass = f->pass;
}

void pb_torch_loaders_measure(struct pb_torch *t, struct pb_torch_batches *ret)
{
    *ret = (struct pb_torch_batches){0};
    for (int i = 0; i < PB_TORCH_LOADERS && t->loaders.list[i].used; i++) {
        struct pb_torch_loader *f = &t->loaders.list[i];

        ret->ns[i] = f->data_ns;
        ret->pass[i] = f->pass;
        if (!f->trains)
            continue;
        ret->data_ns += f->data_ns;
        ret->samples += count_samples(f, t->steps.sums.backwards, &ret->batches[i],
                                      &ret->greedy[i]);
        t->steps.sums.forward_ns += f->forward_ns;
        f->forward_ns = 0;
    }
    count_epoch(t);
    pb_torch_position_measure(t, ret);
}

void pb_torch_loaders_consume(struct pb_torch *t, const struct pb_torch_batches *b)
{
    for (int i = 0; i < PB_TORCH_LOADERS && t->loaders.list[i].used; i++) {
        struct pb_torch_loader *f = &t->loaders.list[i];
        uint32_t n = f->pass == b->pass[i] ? b->batches[i] : 0;

        f->data_ns -= b->ns[i] < f->data_ns ? b->ns[i] : f->data_ns;
        f->forward_ns = 0;
        f->greedy |= b->greedy[i];
        n = n < f->nsizes ? n : f->nsizes;
        f->nsizes -= n;
        memmove(f->sizes, f->sizes + n, f->nsizes * sizeof *f->sizes);
    }
}
