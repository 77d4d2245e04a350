#include "agent/torch/slots.h"

#include <string.h>

#include "agent/torch/torch.h"

/* Number of a slot for PyType_GetSlot; the same in every version of Python. */
#define SLOT_ITERNEXT 63
/* A type object is larger than this in all versions. */
#define TYPE_BYTES 400
#define DEPTH_MAX 64
/* A walk over all classes takes up to a millisecond: new modules cause it no more often. */
#define WALK_NS UINT64_C(100000000)
/* Time between walks that nothing causes. */
#define INTERVAL_MIN_NS UINT64_C(1000000000)
#define INTERVAL_MAX_NS UINT64_C(16000000000)

/* Offset of a function in a type object; -1 when it is not there exactly once. */
static ssize_t find_slot(const struct pb_py *py, struct _object *type, int id, void **ret)
{
    const char *bytes = (const char *)type;
    void *value = py->PyType_GetSlot(type, id);
    ssize_t found = -1;

    py->PyErr_Clear();
    if (!value)
        return -1;
    for (ssize_t at = 0; at < TYPE_BYTES; at += (ssize_t)sizeof(void *)) {
        void *word;

        memcpy(&word, bytes + at, sizeof word);
        if (word != value)
            continue;
        if (found >= 0)
            return -1;
        found = at;
    }
    *ret = value;
    return found;
}

static void **slot_of(struct _object *type, ssize_t at)
{
    return (void **)((char *)type + at);
}

int pb_torch_slots_find(struct pb_torch *t, struct pb_err *err)
{
    const struct pb_py *py = &t->self->py;
    void *call = NULL, *next = NULL;

    if (!t->slots.module_type)
        t->slots.module_type = pb_py_attribute(py, "torch.nn", "Module");
    if (!t->slots.module_type || !py->PyType_GetSlot)
        return pb_err_set(err, PB_FAIL, "torch has no nn.Module");
    if (!t->calls.original) {
        t->slots.call_at = find_slot(py, t->slots.module_type, PB_PY_TP_CALL, &call);
        if (t->slots.call_at < 0)
            return pb_err_set(err, PB_FAIL, "the call slot of nn.Module was not found");
        t->calls.original = (pb_torch_ternary *)(uintptr_t)call;
    }
    if (!t->slots.iterator_type) {
        t->slots.iterator_type = pb_py_attribute(py, "torch.utils.data.dataloader",
                                              "_BaseDataLoaderIter");
        if (t->slots.iterator_type)
            t->slots.next_at = find_slot(py, t->slots.iterator_type, SLOT_ITERNEXT, &next);
        t->slots.next_original = (pb_torch_unary *)(uintptr_t)next;
    }
    return 0;
}

struct walk {
    const struct pb_py *py;
    ssize_t at;
    void *from, *to;
    unsigned changed;
};

/* Every class below this one, in a list that Python makes: classes may change meanwhile. */
static void walk_classes(struct walk *w, struct _object *type, int depth)
{
    const struct pb_py *py = w->py;
    struct _object *method, *list;
    ssize_t n;

    if (*slot_of(type, w->at) == w->from) {
        __atomic_store_n(slot_of(type, w->at), w->to, __ATOMIC_RELEASE);
        w->changed++;
    }
    method = depth < DEPTH_MAX ? py->PyObject_GetAttrString(type, "__subclasses__") : NULL;
    list = method ? py->PyObject_CallFunction(method, NULL) : NULL;
    n = list ? py->PyList_Size(list) : 0;
    for (ssize_t i = 0; i < n; i++)
        walk_classes(w, py->PyList_GetItem(list, i), depth + 1);
    py->PyErr_Clear();
    py->Py_DecRef(list);
    py->Py_DecRef(method);
}

/* Puts our functions in or the original ones; how many slots were changed. */
static unsigned swap(struct pb_torch *t, bool in)
{
    struct walk calls = {&t->self->py, t->slots.call_at, (void *)(uintptr_t)t->calls.original,
                         (void *)(uintptr_t)pb_torch_on_call, 0};
    struct walk nexts = {&t->self->py, t->slots.next_at, (void *)(uintptr_t)t->slots.next_original,
                         (void *)(uintptr_t)pb_torch_on_next, 0};
    struct walk *both[] = {&calls, &nexts};
    struct _object *types[] = {t->slots.module_type, t->slots.iterator_type};

    for (int i = 0; i < 2; i++) {
        struct walk *w = both[i];

        if (!types[i] || !w->from || w->at < 0)
            continue;
        if (!in) {
            void *ours = w->to;

            w->to = w->from;
            w->from = ours;
        }
        walk_classes(w, types[i], 0);
    }
    return calls.changed + nexts.changed;
}

void pb_torch_slots_install(struct pb_torch *t)
{
    unsigned changed = swap(t, true);
    uint64_t now = pb_clock_ns(), twice = 2 * t->slots.interval_ns;

    t->slots.installed = true;
    t->slots.not_before_ns = now + WALK_NS;
    t->slots.interval_ns = changed                  ? INTERVAL_MIN_NS
                           : twice < INTERVAL_MAX_NS ? twice
                                                     : INTERVAL_MAX_NS;
    t->slots.check_ns = now + t->slots.interval_ns;
}

/* A program that assigns nn.Module.__call__ resets the slots of all classes, this one, too. */
void pb_torch_slots_poll(struct pb_torch *t, uint64_t now)
{
    void *ours = (void *)(uintptr_t)pb_torch_on_call;

    if (now >= t->slots.check_ns || *slot_of(t->slots.module_type, t->slots.call_at) != ours)
        pb_torch_slots_install(t);
}

void pb_torch_slots_restore(struct pb_torch *t)
{
    if (t->slots.installed)
        swap(t, false);
    t->slots.installed = false;
}
