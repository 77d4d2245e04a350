/*
 * Where an evaluation is interrupted. An exception that comes between the taking of a lock and the
 * `try` behind it, or in the function that was to give it back, leaves the lock taken for ever: the
 * program hangs at its next import, fork or line of its log.
 */
#include <string.h>

#include "agent/arch/symver.h"
#include "agent/jobs.h"

#define TRIES 1000
/* Tries, a millisecond apart at least, in which a thread on its way would have been met. */
#define UNMET 200

static const char *text_of(const struct pb_py *py, struct _object *object)
{
    const char *text = object ? py->PyUnicode_AsUTF8AndSize(object, NULL) : NULL;

    if (!text)
        py->PyErr_Clear();
    return text ? text : "";
}

static struct _object *attribute(const struct pb_py *py, struct _object *object, const char *name)
{
    struct _object *found = object ? py->PyObject_GetAttrString(object, name) : NULL;

    if (!found)
        py->PyErr_Clear();
    return found;
}

static bool is_about_locks(const char *name)
{
    return strstr(name, "acquire") || strstr(name, "release") || strcmp(name, "__enter__") == 0 ||
           strcmp(name, "__exit__") == 0 || strcmp(name, "__aenter__") == 0 ||
           strcmp(name, "__aexit__") == 0;
}

/* Those that wait for long, and put in order what they have taken. */
static bool is_known_good(const char *name, const char *file)
{
    const char *end = strrchr(file, '/');

    return strcmp(file, "<eval>") == 0 ||
           (end && strcmp(end, "/threading.py") == 0 &&
            (strcmp(name, "wait") == 0 || strcmp(name, "_wait_for_tstate_lock") == 0));
}

static bool may_hold_lock(const struct pb_py *py, struct _object *code)
{
    struct _object *name = attribute(py, code, "co_name");
    struct _object *file = attribute(py, code, "co_filename");
    struct _object *names = attribute(py, code, "co_names");
    bool may = is_about_locks(text_of(py, name));

    for (ssize_t i = 0, n = names ? py->PyTuple_Size(names) : 0; i < n && !may; i++)
        may = is_about_locks(text_of(py, py->PyTuple_GetItem(names, i)));
    may = may && !is_known_good(text_of(py, name), text_of(py, file));
    py->Py_DecRef(names);
    py->Py_DecRef(file);
    py->Py_DecRef(name);
    return may;
}

/*
 * Whether the instruction that ran last leaves a lock that `with` has taken to nobody: to 3.9 the
 * block is over before __exit__ is called; from 3.14 on __enter__ is called as any function is,
 * before the block begins.
 */
static bool is_beside_block(const struct pb_py *py, struct _object *frame, struct _object *code)
{
    struct _object *at = attribute(py, frame, "f_lasti");
    struct _object *bytes = attribute(py, code, "co_code");
    long long i = at ? py->PyLong_AsLongLong(at) : -1;
    char *text;
    ssize_t len;
    bool beside = false;

    if (bytes && i >= 0 && py->PyBytes_AsStringAndSize(bytes, &text, &len) == 0 && i < len)
        beside = (py->api.pop_block && (unsigned char)text[i] == py->api.pop_block) ||
                 (py->api.load_special && i >= 2 &&
                  (unsigned char)text[i - 2] == py->api.load_special);
    py->PyErr_Clear();
    py->Py_DecRef(bytes);
    py->Py_DecRef(at);
    return beside;
}

/* May an exception come up in this frame, where it is now? */
static bool is_safe(const struct pb_py *py, struct _object *frame)
{
    struct _object *code = attribute(py, frame, "f_code");
    bool safe = code && !may_hold_lock(py, code) && !is_beside_block(py, frame, code);

    py->PyErr_Clear();
    py->Py_DecRef(code);
    return safe;
}

/*
 * Whether a thread that waits for the GIL may find an exception when it gets it. Runs no code of
 * Python's: what is found here holds as long as this thread has the GIL.
 */
static bool is_thread_safe(const struct pb_py *py, unsigned long ident)
{
    struct _object *sys = py->PyDict_GetItemString(py->PyImport_GetModuleDict(), "sys");
    struct _object *ask = attribute(py, sys, "_current_frames");
    struct _object *frames = ask ? py->PyObject_CallFunctionObjArgs(ask, NULL) : NULL;
    struct _object *key = py->Py_BuildValue("k", ident);
    struct _object *frame = frames && key ? py->PyDict_GetItem(frames, key) : NULL;
    bool safe = is_safe(py, frame);

    py->PyErr_Clear();
    py->Py_DecRef(key);
    py->Py_DecRef(frames);
    py->Py_DecRef(ask);
    return safe;
}

static bool waits_for_exception(const struct pb_job *job)
{
    return job->state == PB_JOB_RUNNING && job->breaking && !job->thrown;
}

struct wanted {
    unsigned long ident; /* the thread; 0: the job waits for no exception, or no more */
    uint32_t number;     /* of the job */
    bool is_deaf;        /* it makes no pending calls: it is in one call all the time, or in a
                          * pending one itself, as what is to run on the main thread is */
};

/* Counts one more try. Takes self->lock. */
static struct wanted look_at(struct pb_self *self, struct pb_job *job)
{
    struct wanted w = {0};

    pthread_mutex_lock(&self->lock);
    if (waits_for_exception(job) && job->tries < TRIES) {
        job->tries++;
        w.ident = job->ident;
        w.number = job->number;
        w.is_deaf = job->how.flags & PB_WIRE_MAIN || job->tries - job->met > UNMET;
    }
    pthread_mutex_unlock(&self->lock);
    return w;
}

/* The job, unless it has ended, is now one that was thrown into. Takes self->lock. */
static bool mark_thrown(struct pb_self *self, struct pb_job *job, uint32_t number, bool later)
{
    bool mark;

    pthread_mutex_lock(&self->lock);
    mark = job->number == number && waits_for_exception(job);
    if (mark)
        job->thrown = true;
    if (mark && later)
        self->py.PyThreadState_SetAsyncExc(job->ident, *self->py.PyExc_KeyboardInterrupt);
    pthread_mutex_unlock(&self->lock);
    return mark;
}

/* The job that the calling thread evaluates and that waits for its exception. Takes self->lock. */
static struct pb_job *own_job(struct pb_self *self, uint32_t *ret_number)
{
    unsigned long ident = self->py.PyThread_get_thread_ident();
    struct pb_job *found = NULL;

    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < PB_JOBS && !found; i++) {
        struct pb_job *job = &self->server->jobs[i];

        if (waits_for_exception(job) && job->ident == ident) {
            found = job;
            job->met = job->tries;
            *ret_number = job->number;
        }
    }
    pthread_mutex_unlock(&self->lock);
    return found;
}

/*
 * The interpreter calls this in whatever thread looks next for what is pending. That of a job knows
 * where it is, with or without a GIL, and an exception from here comes up right there. One from
 * another thread would come up at the check after the one at which this one waits for the GIL, from
 * 3.13 on; from a call that blocks it comes up where the call is.
 */
static int interrupt_here(void *unused)
{
    struct pb_self *self = pb_self();
    uint32_t number = 0;
    struct pb_job *job = own_job(self, &number);

    (void)unused;
    if (!job || !is_safe(&self->py, self->py.PyEval_GetFrame()) ||
        !mark_thrown(self, job, number, false))
        return 0;
    self->py.PyErr_SetNone(*self->py.PyExc_KeyboardInterrupt);
    return -1;
}

bool pb_jobs_throw(struct pb_self *self)
{
    const struct pb_py *py = &self->py;
    bool ask_itself = py->api.exception_is_late && py->_PyEval_AddPendingCall &&
                      py->PyInterpreterState_Main;
    bool left = false;

    for (int i = 0; i < PB_JOBS; i++) {
        struct pb_job *job = &self->server->jobs[i];
        struct wanted w = look_at(self, job);

        if (w.ident && (!ask_itself || w.is_deaf) && is_thread_safe(py, w.ident))
            mark_thrown(self, job, w.number, true);
        else if (w.ident)
            left = true;
    }
    if (left && ask_itself)
        py->_PyEval_AddPendingCall(py->PyInterpreterState_Main(), interrupt_here, NULL, 0);
    return left;
}
