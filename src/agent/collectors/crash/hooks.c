/*
 * What needs the interpreter: uncaught exceptions, and stacks for handlers in new threads.
 *
 * sys.excepthook and threading.excepthook get a function in front of them, written in C so that
 * no traceback shows it; it passes on, and what comes later stands. A program that has put its
 * own hook in place without calling ours is looked at once more when the interpreter ends: the
 * interpreter keeps the exception that ended it in sys.last_value.
 */
#include <string.h>

#include "agent/collectors/collect.h"
#include "agent/collectors/crash/crash.h"
#include "agent/py/object.h"
#include "base/clock.h"

__asm__(".pushsection .rodata\n"
        "pb_crash_source:\n"
        ".incbin \"" PB_GLUE_DIR "/crash.py\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char pb_crash_source[] __attribute__((visibility("hidden")));

/* The record points at the text while the reader copies it. Others may run meanwhile. */
static void send_text(struct pb_self *self, const char *text, size_t len)
{
    struct pb_crash_state *s = pb_crash_state(self);
    void *state = self->py.PyEval_SaveThread();
    int none = 0;

    if (len <= PB_CRASH_TEXT_MAX && s->armed &&
        atomic_compare_exchange_strong(&s->busy, &none, 1)) {
        pb_crash_fill(self, s, PB_CRASH_EXCEPTION);
        s->record.text = (uint64_t)(uintptr_t)text;
        s->record.text_len = (uint32_t)len;
        pb_crash_report(s);
        s->busy = 0;
    }
    self->py.PyEval_RestoreThread(state);
}

static struct _object *call_send(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct _object *bytes;
    ssize_t len;
    char *text;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "O", &bytes) ||
        self->py.PyBytes_AsStringAndSize(bytes, &text, &len) < 0)
        return NULL;
    send_text(self, text, (size_t)len);
    return self->py.Py_BuildValue("");
}

/* Calls a function of the script with the arguments of a hook; never leaves an exception. */
static void tell(struct pb_self *self, const char *name, struct _object *args)
{
    const struct pb_py *py = &self->py;
    struct pb_crash_state *s = pb_crash_state(self);
    struct _object *f = s->glue ? py->PyDict_GetItemString(s->glue, name) : NULL;
    struct _object *result = f && s->armed ? py->PyObject_Call(f, args, NULL) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(result);
}

static struct _object *pass_on(struct pb_self *self, const char *before, struct _object *args)
{
    struct pb_crash_state *s = pb_crash_state(self);
    struct _object *f = self->py.PyDict_GetItemString(s->glue, before);

    return f ? self->py.PyObject_Call(f, args, NULL) : self->py.Py_BuildValue("");
}

static struct _object *call_hook(struct _object *module, struct _object *args)
{
    (void)module;
    tell(pb_self(), "exception", args);
    return pass_on(pb_self(), "before", args);
}

static struct _object *call_thread_hook(struct _object *module, struct _object *args)
{
    (void)module;
    tell(pb_self(), "thread_exception", args);
    return pass_on(pb_self(), "thread_before", args);
}

/* Thread._bootstrap, with a stack for handlers around it. */
static struct _object *call_bootstrap(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct pb_crash_state *s = pb_crash_state(self);
    void *stack = s->armed ? pb_crash_altstack_set() : NULL;
    struct _object *result = self->py.PyObject_Call(s->bootstrap, args, NULL);

    (void)module;
    pb_crash_altstack_drop(stack);
    return result;
}

static struct pb_py_method method_send = {"send", call_send, PB_PY_VARARGS, NULL};
static struct pb_py_method method_hook = {"excepthook", call_hook, PB_PY_VARARGS, NULL};
static struct pb_py_method method_thread_hook = {"thread_hook", call_thread_hook, PB_PY_VARARGS,
                                                 NULL};
static struct pb_py_method method_bootstrap = {"_bootstrap", call_bootstrap, PB_PY_VARARGS, NULL};

static bool add(const struct pb_py *py, struct _object *dict, struct pb_py_method *method)
{
    struct _object *f = py->PyCFunction_NewEx(method, NULL, NULL);
    bool good = f && py->PyDict_SetItemString(dict, method->name, f) == 0;

    py->Py_DecRef(f);
    return good;
}

/* Made once and kept: a hook of ours may be called at any time. */
static bool load(struct pb_self *self, struct pb_crash_state *s)
{
    const struct pb_py *py = &self->py;
    struct _object *dict, *code = NULL, *result = NULL;

    if (s->glue)
        return true;
    dict = py->PyDict_New();
    if (dict && py->PyDict_SetItemString(dict, "__builtins__", py->PyEval_GetBuiltins()) == 0 &&
        add(py, dict, &method_send) && add(py, dict, &method_hook) &&
        add(py, dict, &method_thread_hook))
        code = py->Py_CompileString(pb_crash_source, "<probing>", PB_PY_FILE_INPUT);
    if (code)
        result = py->PyEval_EvalCode(code, dict, dict);
    py->PyErr_Clear();
    py->Py_DecRef(code);
    if (result)
        s->glue = dict;
    else
        py->Py_DecRef(dict);
    py->Py_DecRef(result);
    return s->glue != NULL;
}

static void call_glue(struct pb_self *self, const char *name)
{
    const struct pb_py *py = &self->py;
    struct _object *f = py->PyDict_GetItemString(pb_crash_state(self)->glue, name);
    struct _object *result = f ? py->PyObject_CallFunction(f, NULL) : NULL;

    py->PyErr_Clear();
    py->Py_DecRef(result);
}

/* In front of threading.Thread._bootstrap; the function that was there is kept for ever. */
static void wrap_bootstrap(struct pb_self *self, struct pb_crash_state *s)
{
    const struct pb_py *py = &self->py;
    struct _object *type = pb_py_attribute(py, "threading", "Thread");
    struct _object *f = py->PyCFunction_NewEx(&method_bootstrap, NULL, NULL);
    struct _object *method = f ? py->PyInstanceMethod_New(f) : NULL;

    if (type && method && !s->bootstrap)
        s->bootstrap = py->PyObject_GetAttrString(type, "_bootstrap");
    if (s->bootstrap && method)
        py->PyObject_SetAttrString(type, "_bootstrap", method);
    py->PyErr_Clear();
    py->Py_DecRef(method);
    py->Py_DecRef(f);
    py->Py_DecRef(type);
}

static void unwrap_bootstrap(struct pb_self *self, struct pb_crash_state *s)
{
    const struct pb_py *py = &self->py;
    struct _object *type = s->bootstrap ? pb_py_attribute(py, "threading", "Thread") : NULL;
    struct _object *now = type ? py->PyObject_GetAttrString(type, "_bootstrap") : NULL;

    /* What is seen through the class is our function itself. */
    if (now && py->PyCFunction_GetFunction(now) == (void *)call_bootstrap)
        py->PyObject_SetAttrString(type, "_bootstrap", s->bootstrap);
    py->PyErr_Clear();
    py->Py_DecRef(now);
    py->Py_DecRef(type);
}

int pb_crash_hooks_enter(struct pb_self *self, struct pb_crash_state *s, struct pb_err *err)
{
    if (!load(self, s))
        return pb_err_set(err, PB_FAIL, "the script for exceptions could not be made");
    call_glue(self, "enter");
    s->threads = false;
    pb_crash_hooks_poll(self, s);
    return 0;
}

void pb_crash_hooks_poll(struct pb_self *self, struct pb_crash_state *s)
{
    if (s->threads || !pb_py_loaded(&self->py, "threading"))
        return;
    call_glue(self, "enter_threads");
    wrap_bootstrap(self, s);
    s->threads = s->bootstrap != NULL;
}

void pb_crash_hooks_leave(struct pb_self *self, struct pb_crash_state *s)
{
    if (!s->glue)
        return;
    if (self->finalizing) {
        call_glue(self, "at_end");
        return;
    }
    call_glue(self, "leave");
    unwrap_bootstrap(self, s);
}
