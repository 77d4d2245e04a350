#include "agent/glue.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/core/gil.h"
#include "agent/jobs.h"
#include "agent/lifecycle.h"
#include "agent/profile.h"
#include "agent/streams.h"

__asm__(".pushsection .rodata\n"
        "pb_glue_source:\n"
        ".incbin \"" PB_GLUE_DIR "/streams.py\"\n"
        ".incbin \"" PB_GLUE_DIR "/strays.py\"\n"
        ".incbin \"" PB_GLUE_DIR "/names.py\"\n"
        ".incbin \"" PB_GLUE_DIR "/glue.py\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char pb_glue_source[] __attribute__((visibility("hidden")));

enum { GLUE_NONE, GLUE_MAKING, GLUE_READY };

static struct _object *call_emit(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    struct _object *bytes;
    unsigned number;
    ssize_t len;
    char *data;
    int fd;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "IiO", &number, &fd, &bytes) ||
        self->py.PyBytes_AsStringAndSize(bytes, &data, &len) < 0)
        return NULL;
    pb_jobs_print(self, number, fd == 2 ? PB_WIRE_ERR : PB_WIRE_OUT, data, (size_t)len);
    return self->py.Py_BuildValue("");
}

static struct _object *call_tid_of(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    unsigned long ident;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "k", &ident))
        return NULL;
    return self->py.Py_BuildValue("i", (int)pb_py_tid(ident));
}

static struct _object *call_was_thrown(struct _object *module, struct _object *args)
{
    struct pb_self *self = pb_self();
    unsigned number;

    (void)module;
    if (!self->py.PyArg_ParseTuple(args, "I", &number))
        return NULL;
    return self->py.Py_BuildValue("i", (int)pb_jobs_was_thrown(self, number));
}

static struct _object *call_at_exit(struct _object *module, struct _object *args)
{
    (void)module;
    (void)args;
    pb_lifecycle_interpreter_ends(pb_self());
    return pb_self()->py.Py_BuildValue("");
}

static struct _object *call_in_child(struct _object *module, struct _object *args)
{
    (void)module;
    (void)args;
    pb_lifecycle_after_fork(pb_self());
    return pb_self()->py.Py_BuildValue("");
}

/* Python keeps pointers to these for as long as a function object lives. */
static struct pb_py_method method_emit = {"emit", call_emit, PB_PY_VARARGS, NULL};
static struct pb_py_method method_tid_of = {"tid_of", call_tid_of, PB_PY_VARARGS, NULL};
static struct pb_py_method method_was_thrown = {"was_thrown", call_was_thrown, PB_PY_VARARGS, NULL};
static struct pb_py_method method_at_exit = {"probing_at_exit", call_at_exit, PB_PY_NOARGS, NULL};
static struct pb_py_method method_in_child = {"probing_in_child", call_in_child, PB_PY_NOARGS,
                                              NULL};

/* Drops a result or the exception that stands in its place. */
static bool discard(struct pb_self *self, struct _object *result)
{
    if (result)
        self->py.Py_DecRef(result);
    else
        self->py.PyErr_Clear();
    return result != NULL;
}

/* module.name(value), as `name=value` when keyword is given. */
static bool call_with(struct pb_self *self, const char *module, const char *name,
                      const char *keyword, struct _object *value)
{
    const struct pb_py *py = &self->py;
    struct _object *m = py->PyImport_ImportModule(module);
    struct _object *f = m ? py->PyObject_GetAttrString(m, name) : NULL;
    struct _object *args = keyword ? py->Py_BuildValue("()") : py->Py_BuildValue("(O)", value);
    struct _object *named = keyword ? py->Py_BuildValue("{sO}", keyword, value) : NULL;
    bool good = discard(self, f && args ? py->PyObject_Call(f, args, named) : NULL);

    py->Py_DecRef(named);
    py->Py_DecRef(args);
    py->Py_DecRef(f);
    py->Py_DecRef(m);
    return good;
}

void pb_glue_set_hooks(struct pb_self *self)
{
    bool done = false;
    struct _object *f;

    if (!atomic_compare_exchange_strong(&self->hooks_set, &done, true))
        return;
    /* Made once: the end of the interpreter may be in the midst of calling it. */
    if (!self->exit_hook)
        self->exit_hook = self->py.PyCFunction_NewEx(&method_at_exit, NULL, NULL);
    if (self->exit_hook)
        call_with(self, "atexit", "register", NULL, self->exit_hook);
    if (self->fork_hook_set) /* cannot be taken back, so once is enough */
        return;
    f = self->py.PyCFunction_NewEx(&method_in_child, NULL, NULL);
    if (f)
        self->fork_hook_set = call_with(self, "os", "register_at_fork", "after_in_child", f);
    self->py.Py_DecRef(f);
}

/* Calls a function of the script that takes nothing, if the script is there. */
static void call_glue(struct pb_self *self, const char *name)
{
    struct _object *f;

    if (self->glue->state != GLUE_READY)
        return;
    f = self->py.PyDict_GetItemString(self->glue->dict, name);
    discard(self, f ? self->py.PyObject_CallFunction(f, NULL) : NULL);
}

void pb_glue_drop(struct pb_self *self)
{
    bool done = true;

    call_glue(self, "release_host");
    /* Last: from then on the end of the interpreter does not wait for this thread. */
    if (atomic_compare_exchange_strong(&self->hooks_set, &done, false) && self->exit_hook &&
        !self->finalizing)
        call_with(self, "atexit", "unregister", NULL, self->exit_hook);
}

static bool add_function(struct pb_self *self, struct _object *dict, struct pb_py_method *method)
{
    struct _object *f = self->py.PyCFunction_NewEx(method, NULL, NULL);
    bool good = f && self->py.PyDict_SetItemString(dict, method->name, f) == 0;

    self->py.Py_DecRef(f);
    return good;
}

/* A dictionary of functions for scripts that the tool itself sends (PB_WIRE_OWN). */
static bool add_tools(struct pb_self *self, struct _object *dict)
{
    struct _object *tools = self->py.PyDict_New();
    bool good = tools != NULL;

    for (struct pb_py_method *m = pb_profile_methods(); good && m->name; m++)
        good = add_function(self, tools, m);
    good = good && self->py.PyDict_SetItemString(dict, "tools", tools) == 0;
    self->py.Py_DecRef(tools);
    return good;
}

static struct _object *run_script(struct pb_self *self)
{
    const struct pb_py *py = &self->py;
    struct _object *dict = py->PyDict_New(), *code = NULL;
    bool good = false;

    if (dict && py->PyDict_SetItemString(dict, "__builtins__", py->PyEval_GetBuiltins()) == 0 &&
        add_function(self, dict, &method_emit) && add_function(self, dict, &method_tid_of) &&
        add_function(self, dict, &method_was_thrown) && add_tools(self, dict) &&
        pb_streams_add(self, dict)) {
        code = py->Py_CompileString(pb_glue_source, "<probing>", PB_PY_FILE_INPUT);
        good = code && discard(self, py->PyEval_EvalCode(code, dict, dict));
    }
    py->PyErr_Clear();
    py->Py_DecRef(code);
    if (good)
        return dict;
    py->Py_DecRef(dict);
    return NULL;
}

bool pb_glue_load(struct pb_self *self)
{
    int none = GLUE_NONE;

    pb_glue_set_hooks(self);
    /* Whoever makes it may release the GIL meanwhile. */
    for (int i = 0; self->glue->state == GLUE_MAKING && i < 5000; i++) {
        void *state = self->py.PyEval_SaveThread();

        usleep(1000);
        self->py.PyEval_RestoreThread(state);
    }
    if (!atomic_compare_exchange_strong(&self->glue->state, &none, GLUE_MAKING))
        return self->glue->state == GLUE_READY;
    self->glue->dict = run_script(self);
    self->glue->state = self->glue->dict ? GLUE_READY : GLUE_NONE;
    return self->glue->dict != NULL;
}

void pb_glue_after_fork(struct pb_self *self)
{
    int making = GLUE_MAKING;

    /* The thread that was at it is not in this process. */
    atomic_compare_exchange_strong(&self->glue->state, &making, GLUE_NONE);
}

/*
 * Without a GIL a lock of the interpreter may have been held by a thread that is not in this
 * process, and the next one who asks for it waits for ever: that must not be the program, in code
 * of ours. What is left to do waits for the first evaluation, and does no harm until then.
 */
void pb_glue_reset(struct pb_self *self)
{
    self->glue->stale = self->py.free_threaded;
    if (!self->glue->stale)
        call_glue(self, "reset");
}

bool pb_glue_begin(struct pb_self *self, uint32_t number)
{
    struct _object *f;

    if (atomic_exchange(&self->glue->stale, false))
        call_glue(self, "reset");
    f = self->py.PyDict_GetItemString(self->glue->dict, "begin");
    return discard(self, f ? self->py.PyObject_CallFunction(f, "I", number) : NULL);
}

void pb_glue_end(struct pb_self *self, bool keep_streams)
{
    struct _object *f = self->py.PyDict_GetItemString(self->glue->dict, "end");

    discard(self, f ? self->py.PyObject_CallFunction(f, "(i)", (int)keep_streams) : NULL);
}

void pb_glue_forget(struct pb_self *self, uint32_t client)
{
    struct _object *f;

    if (self->glue->state != GLUE_READY)
        return;
    f = self->py.PyDict_GetItemString(self->glue->dict, "forget");
    discard(self, f ? self->py.PyObject_CallFunction(f, "I", client) : NULL);
}

bool pb_glue_raise_stray(struct pb_self *self)
{
    struct _object *f = NULL, *result;

    if (self->glue->state == GLUE_READY)
        f = self->py.PyDict_GetItemString(self->glue->dict, "raise_stray");
    if (!f)
        return false;
    result = self->py.PyObject_CallFunction(f, NULL);
    self->py.Py_DecRef(result);
    return !result;
}

static int raise_in_program(void *arg)
{
    (void)arg;
    return pb_glue_raise_stray(pb_self()) ? -1 : 0;
}

bool pb_glue_hand_back(struct pb_self *self)
{
    const struct pb_py *py = &self->py;
    struct _object *type = NULL, *value = NULL, *trace = NULL, *f, *answer = NULL;
    bool its;

    if (!py->PyErr_Fetch || !py->PyErr_Restore)
        return false;
    py->PyErr_Fetch(&type, &value, &trace);
    py->PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace)
        py->PyException_SetTraceback(value, trace);
    f = pb_glue_load(self) ? py->PyDict_GetItemString(self->glue->dict, "hand_back") : NULL;
    if (f && value)
        answer = py->PyObject_CallFunction(f, "(O)", value);
    its = answer && py->PyObject_IsTrue(answer) == 1 &&
          pb_gil_add_pending(self, raise_in_program);
    py->PyErr_Clear();
    py->Py_DecRef(answer);
    if (!its) {
        py->PyErr_Restore(type, value, trace);
        return false;
    }
    py->Py_DecRef(trace);
    py->Py_DecRef(value);
    py->Py_DecRef(type);
    return true;
}

enum pb_wire_result pb_glue_run(struct pb_self *self, const struct pb_job *job, char *why,
                                size_t why_cap)
{
    const struct pb_py *py = &self->py;
    const char *what = job->complete ? "complete" : "run";
    struct _object *f = py->PyDict_GetItemString(self->glue->dict, what);
    struct _object *code = py->PyUnicode_DecodeUTF8(job->code, (ssize_t)job->code_len, "strict");
    struct _object *name = py->PyUnicode_DecodeUTF8(job->frame_name ? job->frame_name : "",
                                                    (ssize_t)job->frame_name_len, "replace");
    struct _object *answer = NULL;
    int result = PB_WIRE_REFUSED;
    const char *text = "";

    if (!code) {
        text = "the code is not UTF-8";
        goto out;
    }
    if (f && name)
        answer = py->PyObject_CallFunction(f, "OIiiIO", code, job->how.flags, (int)job->how.frame,
                                           (int)job->how.tid, job->client_serial, name);
    /* An interrupt that landed in our own lines, not in the user's, comes out here. */
    if (!answer)
        result = PB_WIRE_INTERRUPTED;
    else if (!py->PyArg_ParseTuple(answer, "is", &result, &text))
        result = PB_WIRE_REFUSED;
out:
    snprintf(why, why_cap, "%s", text);
    py->PyErr_Clear();
    py->Py_DecRef(answer);
    py->Py_DecRef(name);
    py->Py_DecRef(code);
    return (enum pb_wire_result)result;
}
