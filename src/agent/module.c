/*
 * The library as a module: `import libprobing; libprobing.start("eval.timeout=5")`.
 *
 * Written without Python.h: the two shapes of a module definition (with the
 * GIL, and free-threaded) are the only layouts of CPython that it knows.
 */
#include <errno.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/glue.h"
#include "agent/lifecycle.h"
#include "agent/core/self.h"
#include "agent/user/user.h"

/* PyModuleDef behind its object header. */
struct module_rest {
    void *init;
    ssize_t index;
    void *copy;
    const char *name, *doc;
    ssize_t size;
    struct pb_py_method *methods;
    struct pb_py_slot *slots;
    void *traverse, *clear, *free;
};

struct module_def {
    ssize_t refs;
    void *type;
    struct module_rest rest;
};

struct module_def_free_threaded {
    uintptr_t tid;
    uint16_t flags;
    uint8_t mutex, gc_bits;
    uint32_t local;
    ssize_t shared;
    void *type;
    struct module_rest rest;
};

_Static_assert(sizeof(struct module_def) == 104, "PyModuleDef");
_Static_assert(sizeof(struct module_def_free_threaded) == 120, "PyModuleDef, free-threaded");

enum { SLOT_MULTIPLE_INTERPRETERS = 3, SLOT_GIL = 4 };

static struct _object *result(struct pb_py *py, int rc)
{
    if (rc >= 0)
        return py->Py_BuildValue("i", rc);
    py->PyErr_SetString(*py->PyExc_RuntimeError,
                        rc == -EINVAL ? "probing: a setting does not exist or is out of range"
                                      : "probing: the agent could not be started or stopped");
    return NULL;
}

static struct _object *call_start(struct _object *module, struct _object *args)
{
    const char *options = "";
    struct pb_py py;
    int rc;

    (void)module;
    if (pb_py_find(&py) < 0 || !py.PyArg_ParseTuple(args, "|s", &options))
        return NULL;
    rc = probing_start(options);
    /* At once: a program may end before a thread of ours has had the GIL. */
    if (rc == 0)
        pb_glue_set_hooks(pb_self());
    return result(&py, rc);
}

static struct _object *call_stop(struct _object *module, struct _object *args)
{
    struct pb_py py;
    void *state;
    int rc;

    (void)module;
    (void)args;
    if (pb_py_find(&py) < 0)
        return NULL;
    state = py.PyEval_SaveThread();
    rc = probing_stop();
    py.PyEval_RestoreThread(state);
    return result(&py, rc);
}

static struct _object *call_running(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct pb_py py;

    (void)module;
    (void)args;
    if (pb_py_find(&py) < 0)
        return NULL;
    return py.Py_BuildValue("i", self && self->life == PB_LIFE_RUNNING);
}

enum { OWN = 3, OF_TABLES = 5 };

/* Python keeps pointers to these and writes into the definition. */
static struct pb_py_method methods[OWN + OF_TABLES + 1] = {
    {"start", call_start, PB_PY_VARARGS,
     "start(options='') -> 0 when started, 1 when it was running; options: key=value lines"},
    {"stop", call_stop, PB_PY_NOARGS, "stop() -> 0 when stopped, 1 when it was not running"},
    {"running", call_running, PB_PY_NOARGS, "running() -> 1 when the agent runs"},
};
static struct pb_py_slot slots[3];

__attribute__((visibility("default"))) void *PyInit_libprobing(void)
{
    static struct module_def def;
    static struct module_def_free_threaded def_ft;
    static const struct module_rest rest = {.name = "libprobing",
                                            .doc = "The agent of Probing in this process.",
                                            .methods = methods,
                                            .slots = slots};
    struct pb_self *self = pb_lifecycle_self();
    const struct pb_py *py = self ? &self->py : NULL;
    int n = 0;

    if (!self || !pb_user_prepare(self))
        return NULL;
    memcpy(methods + OWN, pb_user_methods(py), OF_TABLES * sizeof *methods);
    if (py->api.slot_interpreters)
        slots[n++] = (struct pb_py_slot){SLOT_MULTIPLE_INTERPRETERS, (void *)1};
    if (py->api.slot_gil)
        slots[n++] = (struct pb_py_slot){SLOT_GIL, (void *)1};
    if (py->free_threaded) {
        if (!def_ft.rest.name) /* a subinterpreter imports it again */
            def_ft = (struct module_def_free_threaded){.local = UINT32_MAX, .rest = rest};
        return py->PyModuleDef_Init(&def_ft);
    }
    if (!def.rest.name)
        def = (struct module_def){.refs = 1, .rest = rest};
    return py->PyModuleDef_Init(&def);
}
