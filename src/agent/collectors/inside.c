/* What collectors do in the interpreter: hooks in and out, polls. GIL held. */
#include "agent/collectors/collect.h"
#include "agent/collectors/internal.h"
#include "agent/core/gil.h"
#include "agent/core/gil_tasks.h"
#include "agent/py/object.h"
#include "base/clock.h"

#define MS 1000000ull
#define CHECK_NS (10 * MS)
/* The program is not kept waiting for much longer than this at a time. */
#define SLICE_NS (2 * MS)

/* Whether a module is in sys.modules, and not just being imported. */
static bool is_imported(const struct pb_py *py, const char *name)
{
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *module = modules ? py->PyDict_GetItemString(modules, name) : NULL;
    struct _object *spec, *busy;
    bool done;

    if (!module)
        return false;
    spec = py->PyObject_GetAttrString(module, "__spec__");
    busy = spec ? py->PyObject_GetAttrString(spec, "_initializing") : NULL;
    done = !busy || py->PyObject_IsTrue(busy) == 0;
    py->PyErr_Clear();
    py->Py_DecRef(busy);
    py->Py_DecRef(spec);
    return done;
}

static void enter(struct pb_self *self, enum pb_collector_id id)
{
    const struct pb_collector *c = pb_collectors[id];
    struct pb_collector_run *run = &self->collect->runs[id];
    struct pb_err err = {0};
    int rc = 1;

    if (!c->awaits || is_imported(&self->py, c->awaits))
        rc = c->enter(self, &err);
    self->py.PyErr_Clear();
    if (rc > 0) {
        pb_collect_set_state(self, id, "waiting", c->awaits ? c->awaits : "the interpreter");
        return;
    }
    run->entered = rc == 0;
    run->failed = rc < 0;
    pb_collect_set_state(self, id, rc == 0 ? "on" : "off", rc == 0 ? "" : err.msg);
}

struct _object *pb_collect_module(struct pb_self *self, const char *name)
{
    const struct pb_py *py = &self->py;
    struct _object *modules = py->PyImport_GetModuleDict();
    struct _object *module = modules ? py->PyDict_GetItemString(modules, name) : NULL;

    if (module)
        py->Py_IncRef(module);
    else if (self->collect->may_import)
        module = py->PyImport_ImportModule(name);
    py->PyErr_Clear();
    return module;
}

static void change_hooks(struct pb_self *self, enum pb_collector_id id)
{
    const struct pb_collector *c = pb_collectors[id];
    struct pb_collector_run *run = &self->collect->runs[id];

    if (run->entered && !run->wanted) {
        run->entered = false;
        c->leave(self);
    } else if (run->wanted && !run->entered && !run->failed && c->enter) {
        enter(self, id);
    }
}

/* Puts hooks in and takes them out. True when there is more to do, by the helper, later. */
static bool change_all(struct pb_self *self, bool helper)
{
    struct pb_collect *c = self->collect;
    uint64_t began = pb_clock_ns();

    for (; pb_collectors[c->change_at]; c->change_at++) {
        const struct pb_collector *one = pb_collectors[c->change_at];
        struct pb_collector_run *run = &c->runs[c->change_at];

        if (!pb_collect_must_change(one, run))
            continue;
        if (helper || !pb_gil_is_made(self))
            change_hooks(self, (enum pb_collector_id)c->change_at);
        else if (!one->awaits || is_imported(&self->py, one->awaits))
            return true;
        if (helper && pb_clock_ns() - began > SLICE_NS) {
            c->change_at++;
            return true;
        }
    }
    c->change_at = 0;
    return false;
}

void pb_collect_run_inside(struct pb_self *self, bool helper)
{
    struct pb_collect *c = self->collect;
    bool left;

    if (!c->on && helper)
        pb_collect_leave(self);
    if (!c->on || atomic_exchange(&c->inside, true))
        return;
    c->may_import = helper;
    c->client->attach(self);
    left = change_all(self, helper);
    for (int i = 0; pb_collectors[i] && !(left && helper); i++) {
        const struct pb_collector *one = pb_collectors[i];
        struct pb_collector_run *run = &c->runs[i];

        if (one->poll && run->wanted && (run->entered || !one->enter))
            one->poll(self, pb_clock_ns());
    }
    if (c->rank < 0)
        pb_collect_read_ranks(self, true);
    c->inside = false;
    if (left)
        pb_gil_task_add(self, PB_GIL_TASK_COLLECT);
}

void pb_collect_check_imports(struct pb_self *self, uint64_t now)
{
    struct pb_collect *c = self->collect;

    if (!c->on || now < c->check_ns || c->inside)
        return;
    c->check_ns = now + CHECK_NS;
    for (int i = 0; pb_collectors[i]; i++) {
        const struct pb_collector *one = pb_collectors[i];

        if (one->awaits && !c->runs[i].entered && pb_collect_must_change(one, &c->runs[i]) &&
            is_imported(&self->py, one->awaits)) {
            pb_gil_task_add(self, PB_GIL_TASK_COLLECT);
            return;
        }
    }
}

void pb_collect_leave(struct pb_self *self)
{
    self->collect->client->detach(self);
    for (int i = 0; pb_collectors[i]; i++)
        if (atomic_exchange(&self->collect->runs[i].entered, false))
            pb_collectors[i]->leave(self);
    self->py.PyErr_Clear();
}
