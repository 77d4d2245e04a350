#include "agent/torch/modules.h"

#include <string.h>

#include "agent/torch/torch.h"

static size_t hash_of(const struct _object *object)
{
    uint64_t x = (uint64_t)(uintptr_t)object >> 4;

    return (size_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & (PB_TORCH_INDEX - 1);
}

static size_t next_of(size_t i)
{
    return (i + 1) & (PB_TORCH_INDEX - 1);
}

/* At least half of the index is never used, so that every search ends soon. */
static struct pb_torch_index *find(struct pb_torch *t, const struct _object *object)
{
    struct pb_torch_index *index = t->module_table.index;
    size_t i = hash_of(object);

    while (index[i].number && index[i].object != object)
        i = next_of(i);
    return &index[i];
}

struct pb_torch_module *pb_torch_module_find(struct pb_torch *t, const struct _object *object)
{
    const struct pb_torch_index *at = find(t, object);

    return at->number ? &t->module_table.list[at->number - 1] : NULL;
}

struct pb_torch_module *pb_torch_module_called(struct pb_torch *t, const struct _object *object)
{
    struct pb_torch_module_table *table = &t->module_table;
    uint16_t at = t->modules.expected;

    if (table->objects[at] != object) {
        const struct pb_torch_index *found = find(t, object);

        if (!found->number)
            return NULL;
        table->after[t->modules.last] = at = (uint16_t)(found->number - 1);
    }
    t->modules.last = at;
    t->modules.expected = table->after[at];
    return &table->list[at];
}

/* Callback of a weak reference: the module's address may be used again. */
static struct _object *on_deleted(struct _object *address, struct _object *weak)
{
    struct pb_torch *t = pb_torch_state(pb_self());
    const struct pb_py *py = &t->self->py;
    struct _object *object = (struct _object *)(uintptr_t)py->PyLong_AsLongLong(address);
    struct pb_torch_index *at = find(t, object);
    struct pb_torch_module *m = at->number ? &t->module_table.list[at->number - 1] : NULL;

    if (m && m->weak == weak) {
        t->modules.changes++;
        at->object = m->object = PB_TORCH_GONE;
        t->module_table.objects[m - t->module_table.list] = NULL;
        m->weak = NULL;
        py->Py_DecRef(weak);
    }
    return py->Py_BuildValue("");
}

/* Python keeps a pointer to it. */
static struct pb_py_method method_deleted = {"probing_deleted", on_deleted, PB_PY_O, NULL};

static void add_to_index(struct pb_torch *t, uint32_t number)
{
    struct pb_torch_index *index = t->module_table.index;
    struct _object *object = t->module_table.list[number - 1].object;
    size_t i = hash_of(object);

    while (index[i].number)
        i = next_of(i);
    index[i] = (struct pb_torch_index){object, number};
}

/* Frees the entries of deleted modules. Calls under way see that theirs is another one now. */
static void collect_deleted(struct pb_torch *t)
{
    if (t->calls.nended)
        pb_torch_calls_flush(t);
    t->modules.changes++;
    memset(t->module_table.index, 0, sizeof t->module_table.index);
    if (t->backward.model && t->backward.model->object == PB_TORCH_GONE)
        t->backward.model = NULL;
    for (uint32_t number = 1; number <= t->modules.count; number++) {
        struct pb_torch_module *m = &t->module_table.list[number - 1];

        if (m->object == PB_TORCH_GONE) {
            *m = (struct pb_torch_module){.walk = t->modules.free};
            t->modules.free = number;
        } else if (m->object) {
            add_to_index(t, number);
        }
    }
}

static struct _object *make_weak(const struct pb_py *py, struct _object *object)
{
    struct _object *address = py->Py_BuildValue("n", (ssize_t)(uintptr_t)object);
    struct _object *callback =
        address ? py->PyCFunction_NewEx(&method_deleted, address, NULL) : NULL;
    struct _object *weak = callback ? py->PyWeakref_NewRef(object, callback) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(callback);
    py->Py_DecRef(address);
    return weak;
}

/* Number of a free entry, from 1 on; 0: there is none. */
static uint32_t claim_entry(struct pb_torch *t)
{
    uint32_t number;

    if (!t->modules.free && t->modules.count == PB_TORCH_MODULES)
        collect_deleted(t);
    if (!t->modules.free)
        return t->modules.count < PB_TORCH_MODULES ? ++t->modules.count : 0;
    number = t->modules.free;
    t->modules.free = t->module_table.list[number - 1].walk;
    return number;
}

struct pb_torch_module *pb_torch_module_add(struct pb_torch *t, struct _object *object)
{
    struct pb_torch_module_table *table = &t->module_table;
    struct _object *weak = make_weak(&t->self->py, object);
    uint32_t number = weak && t->on ? claim_entry(t) : 0;

    if (!number) {
        t->self->py.Py_DecRef(weak);
        return NULL;
    }
    table->list[number - 1] = (struct pb_torch_module){.object = object, .weak = weak};
    table->objects[number - 1] = object;
    table->after[number - 1] = (uint16_t)(number % PB_TORCH_MODULES);
    add_to_index(t, number);
    return &table->list[number - 1];
}

void pb_torch_modules_forget(struct pb_torch *t)
{
    uint32_t n = t->modules.count;

    t->modules.count = t->modules.free = t->calls.nended = 0;
    t->modules.changes++;
    t->backward.model = NULL;
    t->modules.strays = t->modules.strays_limit = 0;
    memset(t->module_table.index, 0, sizeof t->module_table.index);
    for (uint32_t i = 0; i < n; i++) {
        struct _object *weak = t->module_table.list[i].weak;

        t->module_table.list[i] = (struct pb_torch_module){0};
        t->module_table.objects[i] = NULL;
        t->self->py.Py_DecRef(weak);
    }
}
