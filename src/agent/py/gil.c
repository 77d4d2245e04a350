#include "agent/py/gil.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* How long the main thread stands aside for one of ours to take the GIL. */
#define STAND_ASIDE_NS 2000000
#define LOOK_AGAIN_US 500
#define LOOK_AGAIN_MAX_US 20000

static void futex_wait(_Atomic int *word, int value, long ns)
{
    struct timespec limit = {.tv_nsec = ns};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
}

static void futex_wake(_Atomic int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool is_ending(const struct pb_self *self)
{
    const struct pb_py *py = &self->py;

    return self->finalizing || !py->Py_IsInitialized() ||
           (py->Py_IsFinalizing && py->Py_IsFinalizing()) ||
           (py->_Py_IsFinalizing && py->_Py_IsFinalizing());
}

/* From 3.9 to 3.12 the asking thread, not the main one, decides whether it is worth a look. */
bool pb_gil_pending_is_noticed(const struct pb_self *self)
{
    return self->py.minor < 9 || self->py.minor > 12;
}

/* On the main thread, GIL held, between two instructions: gives way to whoever waits. */
static int give_way(void *arg)
{
    struct pb_self *self = pb_self();
    int waiting;
    void *state;

    (void)arg;
    self->yield_queued = false;
    waiting = self->gil_waiters;
    if (!waiting)
        return 0;
    state = self->py.PyEval_SaveThread();
    futex_wait(&self->gil_waiters, waiting, STAND_ASIDE_NS);
    self->py.PyEval_RestoreThread(state);
    return 0;
}

/* A busy thread keeps the GIL for 5 ms; a pending call gets it away in microseconds. */
static void ask_to_give_way(struct pb_self *self)
{
    bool queued = false;

    if (self->py.free_threaded || !pb_gil_pending_is_noticed(self) ||
        !atomic_compare_exchange_strong(&self->yield_queued, &queued, true))
        return;
    if (self->py.Py_AddPendingCall(give_way, NULL) < 0)
        self->yield_queued = false;
}

static int init_threads(void *arg)
{
    (void)arg;
    pb_self()->py.PyEval_InitThreads();
    return 0;
}

/* Up to 3.6 there is no GIL before the first thread, and only the main thread may make it. */
static bool has_gil(const struct pb_py *py)
{
    return py->minor > 6 || !py->PyEval_ThreadsInitialized || py->PyEval_ThreadsInitialized();
}

bool pb_gil_add_pending(struct pb_self *self, int (*call)(void *arg))
{
    bool good;

    self->inside++; /* the end of the interpreter waits for it */
    good = !is_ending(self) && self->py.Py_AddPendingCall(call, NULL) == 0;
    self->inside--;
    return good;
}

bool pb_gil_is_made(const struct pb_self *self)
{
    return has_gil(&self->py);
}

const char *pb_gil_why_not(const struct pb_self *self)
{
    if (is_ending(self))
        return "the interpreter is ending";
    return has_gil(&self->py) ? ""
                              : "this Python has no GIL before its first thread, and the main "
                                "thread did not reach a safe point to make one";
}

static bool make_gil(struct pb_self *self, uint64_t deadline_ns)
{
    const struct pb_py *py = &self->py;

    if (has_gil(py))
        return true;
    if (!deadline_ns || py->Py_AddPendingCall(init_threads, NULL) < 0)
        return false;
    for (useconds_t us = LOOK_AGAIN_US; !py->PyEval_ThreadsInitialized(); us += us / 8) {
        if (pb_clock_ns() > deadline_ns || is_ending(self))
            return false;
        usleep(us < LOOK_AGAIN_MAX_US ? us : LOOK_AGAIN_MAX_US);
    }
    return true;
}

bool pb_gil_enter(struct pb_self *self, uint64_t deadline_ns, int *ret_token)
{
    self->inside++;
    if (is_ending(self) || !make_gil(self, deadline_ns) || is_ending(self)) {
        self->inside--;
        return false;
    }
    self->gil_waiters++;
    ask_to_give_way(self);
    *ret_token = self->py.PyGILState_Ensure();
    self->gil_waiters--;
    futex_wake(&self->gil_waiters);
    return true;
}

void pb_gil_leave(struct pb_self *self, int token)
{
    self->py.PyGILState_Release(token);
    self->inside--;
}
