/* The process groups of this process: names, ranks, and how far torch has counted in them. */
#include <string.h>

#include "agent/collectors/collect.h"
#include "agent/comm/comm.h"

/* Value of a dict of torch.distributed by key, as a new reference; or NULL. */
static struct _object *look_up(struct pb_comm *c, const char *dict_name, struct _object *key)
{
    const struct pb_py *py = &c->self->py;
    struct _object *module = c->groups.module;
    struct _object *dict = module ? py->PyObject_GetAttrString(module, dict_name) : NULL;
    struct _object *get = dict ? py->PyObject_GetAttrString(dict, "get") : NULL;
    struct _object *value = get ? py->PyObject_CallFunction(get, "O", key) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(get);
    py->Py_DecRef(dict);
    if (value == py->none) {
        py->Py_DecRef(value);
        value = NULL;
    }
    return value;
}

/* torch calls the group of all ranks "0". */
static uint32_t group_name(struct pb_comm *c, struct _object *group, uint32_t *ret_shown,
                           bool *ret_all)
{
    const struct pb_py *py = &c->self->py;
    struct _object *name = py->PyObject_GetAttrString(group, "group_name");
    uint32_t id = PB_NULL_NAME;
    ssize_t len = 0;
    const char *s;

    py->PyErr_Clear();
    if (!name)
        name = look_up(c, "_pg_names", group);
    s = name ? py->PyUnicode_AsUTF8AndSize(name, &len) : NULL;
    *ret_all = s && strcmp(s, "0") == 0;
    if (*ret_all) {
        s = "default_pg";
        len = 10;
    }
    if (s && len) {
        id = pb_comm_name(c, s, (size_t)len);
        *ret_shown = pb_progress_name(c->self, s, (size_t)len);
    }
    py->PyErr_Clear();
    py->Py_DecRef(name);
    return id;
}

static void forget(struct pb_comm *c, struct pb_comm_group *g)
{
    const struct pb_py *py = &c->self->py;

    pb_comm_unwatch(c, g);
    py->Py_DecRef(g->weak);
    py->Py_DecRef(g->ranks);
    *g = (struct pb_comm_group){0};
}

void pb_comm_groups_forget(struct pb_comm *c)
{
    for (int i = 0; i < PB_COMM_GROUPS; i++)
        forget(c, &c->groups.list[i]);
    for (int i = 0; i < PB_COMM_DTYPES; i++) {
        c->self->py.Py_DecRef(c->dtypes[i].dtype);
        c->dtypes[i].dtype = NULL;
    }
}

/* What a group is called is settled some time after it is made. */
static void learn_name(struct pb_comm *c, struct pb_comm_group *g, struct _object *group)
{
    const struct pb_py *py = &c->self->py;
    bool all = false;

    g->name = group_name(c, group, &g->shown, &all);
    if (!all && !g->ranks)
        g->ranks = look_up(c, "_pg_group_ranks", group);
    g->job_rank = pb_comm_job_rank(c, g, g->rank);
    g->asked = -1;
    /* A program may have its rank from elsewhere than the environment. */
    if (all && g->rank >= 0 && c->self->collect->rank < 0)
        pb_collect_set_rank(c->self, g->rank, g->size, -1);
    py->PyErr_Clear();
}

static struct pb_comm_group *meet(struct pb_comm *c, struct pb_comm_group *g,
                                  struct _object *group)
{
    const struct pb_py *py = &c->self->py;

    forget(c, g); /* torch lets others run: it may have been given up half made */
    g->weak = py->PyWeakref_NewRef(group, NULL);
    py->PyErr_Clear();
    if (!g->weak)
        return NULL;
    g->object = group;
    g->name = PB_NULL_NAME;
    g->size = pb_py_call_int(py, group, "size");
    g->rank = pb_py_call_int(py, group, "rank");
    learn_name(c, g, group);
    pb_comm_watch(c, g, group);
    return g;
}

/* What a weak reference is to, or None; somebody else holds that. */
static struct _object *refers_to(const struct pb_py *py, struct _object *weak)
{
    struct _object *now = weak ? py->PyObject_CallFunction(weak, NULL) : NULL;

    if (!now)
        py->PyErr_Clear();
    py->Py_DecRef(now);
    return now;
}

struct pb_comm_group *pb_comm_group(struct pb_comm *c, struct _object *group)
{
    const struct pb_py *py = &c->self->py;
    struct pb_comm_group *room = NULL;

    for (int i = 0; i < PB_COMM_GROUPS; i++) {
        struct pb_comm_group *g = &c->groups.list[i];

        /* Another one may be at that address by now. */
        if (g->object == group && refers_to(py, g->weak) == group) {
            if (g->name == PB_NULL_NAME)
                learn_name(c, g, group);
            return g;
        }
    }
    for (int i = 0; i < PB_COMM_GROUPS; i++) {
        struct pb_comm_group *g = &c->groups.list[i];

        if (refers_to(py, g->weak) == py->none)
            forget(c, g);
        if (!g->weak && !room)
            room = g;
    }
    return room ? meet(c, room, group) : NULL;
}

int64_t pb_comm_job_rank(struct pb_comm *c, const struct pb_comm_group *g, int64_t rank)
{
    const struct pb_py *py = &c->self->py;
    struct _object *key, *value;
    int64_t found = PB_NULL_INT;
    ssize_t at = 0;

    if (rank < 0)
        return PB_NULL_INT;
    if (!g->ranks)
        return rank;
    while (py->PyDict_Next(g->ranks, &at, &key, &value))
        if (py->PyLong_AsLongLong(value) == rank)
            found = py->PyLong_AsLongLong(key);
    py->PyErr_Clear();
    return found;
}

/* The backend for such tensors has a count of its own; before torch 2.0 the group has it. */
int64_t pb_comm_sequence(struct pb_comm *c, struct _object *group, bool device)
{
    const struct pb_py *py = &c->self->py;
    struct _object *which = c->groups.devices[!device];
    struct _object *get = which ? py->PyObject_GetAttrString(group, "_get_backend") : NULL;
    struct _object *backend = get ? py->PyObject_CallFunction(get, "O", which) : NULL;
    struct _object *v;
    int64_t n = -1;

    py->PyErr_Clear();
    if (backend)
        n = pb_py_call_int(py, backend, "_get_sequence_number_for_group");
    if (n < 0 && c->groups.sequence) {
        v = py->PyObject_CallFunction(c->groups.sequence, "O", group);
        n = v ? py->PyLong_AsLongLong(v) : -1;
        if (py->PyErr_Occurred())
            n = -1;
        py->Py_DecRef(v);
    }
    py->PyErr_Clear();
    py->Py_DecRef(backend);
    py->Py_DecRef(get);
    return n;
}

void pb_comm_groups_each(struct pb_comm *c, void (*see)(struct pb_comm *c, struct _object *group))
{
    const struct pb_py *py = &c->self->py;
    struct _object *names = py->PyObject_GetAttrString(c->groups.module, "_pg_names");
    struct _object *list[PB_COMM_GROUPS], *group, *value;
    ssize_t at = 0;
    int n = 0;

    py->PyErr_Clear();
    while (names && n < PB_COMM_GROUPS && py->PyDict_Next(names, &at, &group, &value)) {
        py->Py_IncRef(group); /* what is called below may let others change the dict */
        list[n++] = group;
    }
    py->PyErr_Clear();
    py->Py_DecRef(names);
    for (int i = 0; i < n; i++) {
        see(c, list[i]);
        py->Py_DecRef(list[i]);
    }
}
