/*
 * Batches of a DataLoader: how long a step waited for them, how many samples it had, and how often
 * the data has been gone through.
 *
 * Not every batch is for a step. One that is fetched before a forward without gradients is for an
 * evaluation, whose time and samples are not those of the step that follows. And a loop may fetch a
 * batch ahead of the step that it is for, to know whether it is the last one.
 */
#include <string.h>

#include "agent/collect/torch/torch.h"
#include "base/clock.h"

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

/* Address of what an attribute holds, for comparing. */
static struct _object *address_of(const struct pb_py *py, struct _object *object, const char *name)
{
    struct _object *value = py->PyObject_GetAttrString(object, name);

    py->PyErr_Clear();
    py->Py_DecRef(value);
    return value;
}

/* The number of a batch in its pass, from 1 on; 0 when it cannot be told. */
static int64_t number_of(const struct pb_py *py, struct _object *iterator)
{
    struct _object *value = py->PyObject_GetAttrString(iterator, "_num_yielded");
    int64_t n = value ? py->PyLong_AsLongLong(value) : 0;

    py->PyErr_Clear();
    py->Py_DecRef(value);
    return n;
}

/* What a sampler has been told by set_epoch(), or counts itself; -1: it does not know. */
static int64_t epoch_of(const struct pb_py *py, struct _object *iterator)
{
    struct _object *batches = py->PyObject_GetAttrString(iterator, "_index_sampler");
    struct _object *sampler = batches ? py->PyObject_GetAttrString(batches, "sampler") : NULL;
    struct _object *epoch = NULL;
    int64_t n = -1;

    py->PyErr_Clear();
    if (sampler || batches)
        epoch = py->PyObject_GetAttrString(sampler ? sampler : batches, "epoch");
    if (epoch)
        n = py->PyLong_AsLongLong(epoch);
    py->PyErr_Clear();
    py->Py_DecRef(epoch);
    py->Py_DecRef(sampler);
    py->Py_DecRef(batches);
    return n >= 0 ? n : -1;
}

/* The one for this data, or in place of the one that was not asked for longest. */
static struct pb_torch_feed *feed_for(struct pb_torch *t, struct _object *data)
{
    struct pb_torch_feed *old = &t->feeds[0];

    for (int i = 0; i < PB_TORCH_FEEDS; i++) {
        struct pb_torch_feed *f = &t->feeds[i];

        if (f->data && f->data == data)
            return f;
        if (f->used < old->used)
            old = f;
    }
    if (t->main_feed == old)
        t->main_feed = NULL;
    *old = (struct pb_torch_feed){.data = data, .epoch = -1, .epoch_before = -1};
    return old;
}

/* GIL, and no exception pending where there is a batch. */
static struct pb_torch_feed *feed_of(struct pb_torch *t, struct _object *iterator, bool has_batch)
{
    const struct pb_py *py = &t->self->py;
    struct pb_torch_feed *f = t->feed;
    int64_t number;

    if (!has_batch) {
        for (int i = 0; i < PB_TORCH_FEEDS; i++)
            if (t->feeds[i].iterator == iterator)
                return &t->feeds[i];
        return NULL;
    }
    number = number_of(py, iterator);
    if (number == 1 || !f || f->iterator != iterator) {
        f = feed_for(t, address_of(py, iterator, "_dataset"));
        if (number == 1 || !f->pass) {
            /* Whose pass it is this time has to be seen again. */
            f->pass++;
            f->before = f->began;
            f->began = t->asked;
            f->epoch_before = f->epoch;
            f->epoch = epoch_of(py, iterator);
            f->trains = f->ended = false;
            f->nsizes = 0;
        }
        f->iterator = iterator;
    }
    return f;
}

static void asked(struct pb_torch *t, struct _object *iterator, struct _object *batch, uint64_t ns)
{
    uint64_t began = pb_clock_ns();
    struct pb_torch_feed *f = feed_of(t, iterator, batch != NULL);
    int64_t size = batch ? batch_size(&t->self->py, batch) : 0;

    if (!f)
        return;
    f->data_ns += ns;
    f->used = ++t->asked;
    if (!batch)
        f->ended = true;
    else
        f->touched = true;
    if (batch && f->nsizes < PB_TORCH_AHEAD)
        f->sizes[f->nsizes++] = size;
    t->unfed = 0;
    t->feed = f;
    t->fed = true;
    pb_torch_own(t, began);
}

struct _object *pb_torch_on_next(struct _object *iterator)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    struct pb_torch_thread *th = t->on ? pb_torch_thread(t) : NULL;
    struct pb_torch_part part;
    struct _object *batch;
    uint64_t ns = 0;

    if (!th)
        return t->next_was(iterator);
    pb_torch_part_begins(t, &part, pb_clock_ns());
    th->fetching++;
    batch = t->next_was(iterator);
    if (th->fetching)
        th->fetching--;
    if (!t->on)
        return batch;
    /* One inside of another, or in a thread that fetches ahead: no step waits for that. */
    if (!th->fetching && pb_torch_makes_steps(t))
        ns = pb_torch_part_ends(t, &part, pb_clock_ns());
    asked(t, iterator, batch, ns);
    return batch;
}

bool pb_torch_is_training(struct pb_torch *t, struct _object *root)
{
    const struct pb_py *py = &t->self->py;
    struct _object *mode = py->PyObject_GetAttr(root, t->word_training);
    struct _object *grad = t->grad_enabled
                               ? py->PyObject_CallFunctionObjArgs(t->grad_enabled, NULL) : NULL;
    bool yes = mode && py->PyObject_IsTrue(mode) == 1 && (!grad || py->PyObject_IsTrue(grad) == 1);

    py->PyErr_Clear();
    py->Py_DecRef(grad);
    py->Py_DecRef(mode);
    return yes;
}

/*
 * The first forward after a batch says what that is for; a loss that follows it knows no better. A
 * model without gradients may come before the one that is trained, which then says it.
 */
static bool is_for_step(struct pb_torch *t, bool training, bool has_children)
{
    if (t->feed && !t->fed && (t->training || !has_children))
        return t->training || t->feed->trains;
    for (int i = 0; i < PB_TORCH_FEEDS && t->feeds[i].used; i++) { /* the first ones are */
        struct pb_torch_feed *f = &t->feeds[i];

        if (training && (f->touched || (f == t->feed && !f->ended)))
            f->trains = true;
        f->touched = false;
    }
    t->training = training;
    t->fed = false;
    return training || (t->feed && t->feed->trains);
}

void pb_torch_feed_forward(struct pb_torch *t, bool training, bool has_children, uint64_t ns)
{
    if (is_for_step(t, training, has_children))
        t->sums.forward_ns += ns;
    else if (t->feed)
        t->feed->forward_ns += ns;
}

void pb_torch_feed_backward(struct pb_torch *t)
{
    t->training = true;
    if (t->feed && !t->feed->ended)
        t->feed->trains = true;
}

/*
 * Samples of the batches that this step took. One batch more than there were backward passes has
 * been fetched ahead and stays; where still more come, the loop puts several into one pass.
 */
static int64_t count_samples(const struct pb_torch_feed *f, uint32_t backwards,
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
    struct pb_torch_feed *f = t->feed, *m = t->main_feed;

    if (!f || !f->trains)
        return;
    if (m && f != m && !m->ended && (f->pass < 2 || m->used > f->before))
        return;
    if (m && (f != m || f->pass != t->main_pass))
        t->epoch++;
    if (t->epoch_source == PB_TORCH_BY_EXPRESSION) {
        t->main_feed = f;
        t->main_pass = f->pass;
        return;
    }
    /* One that says the same of two passes is not told by the program; 0 may be that, too. */
    if (f->epoch > 0 && f->epoch != f->epoch_before) {
        t->epoch = f->epoch;
        t->epoch_source = PB_TORCH_BY_SAMPLER;
    } else if (f != m || f->pass != t->main_pass) {
        t->epoch_source = PB_TORCH_BY_INJECTION;
    }
    t->main_feed = f;
    t->main_pass = f->pass;
}

void pb_torch_feed_measure(struct pb_torch *t, struct pb_torch_fed *ret)
{
    *ret = (struct pb_torch_fed){0};
    for (int i = 0; i < PB_TORCH_FEEDS && t->feeds[i].used; i++) {
        struct pb_torch_feed *f = &t->feeds[i];

        ret->ns[i] = f->data_ns;
        ret->pass[i] = f->pass;
        if (!f->trains)
            continue;
        ret->data_ns += f->data_ns;
        ret->samples += count_samples(f, t->sums.backwards, &ret->batches[i], &ret->greedy[i]);
        t->sums.forward_ns += f->forward_ns;
        f->forward_ns = 0;
    }
    count_epoch(t);
}

void pb_torch_feed_take(struct pb_torch *t, const struct pb_torch_fed *fed)
{
    for (int i = 0; i < PB_TORCH_FEEDS && t->feeds[i].used; i++) {
        struct pb_torch_feed *f = &t->feeds[i];
        uint32_t n = f->pass == fed->pass[i] ? fed->batches[i] : 0;

        f->data_ns -= fed->ns[i] < f->data_ns ? fed->ns[i] : f->data_ns;
        f->forward_ns = 0;
        f->greedy |= fed->greedy[i];
        n = n < f->nsizes ? n : f->nsizes;
        f->nsizes -= n;
        memmove(f->sizes, f->sizes + n, f->nsizes * sizeof *f->sizes);
    }
}
