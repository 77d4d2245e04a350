#include "agent/core/gil.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "base/clock.h"

/* How long the main thread stands aside for one of ours to take the GIL. */
#define STAND_ASIDE_NS 2000000
#define LOOK_AGAIN_US 500
#define LOOK_AGAIN_MAX_US 20000
#define FORK_WAIT_MS 50

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
    return self->py.api.pending_is_noticed;
}

/* On the main thread, GIL held, between two instructions: gives way to whoever waits. */
static int yield_gil(void *arg)
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
static void request_yield(struct pb_self *self)
{
    bool queued = false;

    if (self->py.free_threaded || !pb_gil_pending_is_noticed(self) ||
        !atomic_compare_exchange_strong(&self->yield_queued, &queued, true))
        return;
    if (self->py.Py_AddPendingCall(yield_gil, NULL) < 0)
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
    return !py->api.gil_is_late || !py->PyEval_ThreadsInitialized ||
           py->PyEval_ThreadsInitialized();
}

bool pb_gil_add_pending(struct pb_self *self, int (*call)(void *arg))
{
    bool good;

    self->inside++; /* the end of the interpreter waits for it */
    good = !is_ending(self) && self->py.Py_AddPendingCall(call, NULL) == 0;
    self->inside--;
    return good;
}

void pb_gil_make_here(struct pb_self *self)
{
    if (!has_gil(&self->py))
        self->py.PyEval_InitThreads();
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

/* The first one that was made; in 3.6, which does not tell, the last of the list. */
static void *main_interpreter(const struct pb_py *py)
{
    void *found;

    if (py->PyInterpreterState_Main)
        return py->PyInterpreterState_Main();
    found = py->PyInterpreterState_Head();
    for (void *next = found; next; next = py->PyInterpreterState_Next(next))
        found = next;
    return found;
}

/*
 * Adds the calling thread to the interpreter's list, as PyGILState_Ensure would: without the GIL,
 * under the interpreter's own lock. Up to 3.12 a fork does not wait for that lock; were it taken at
 * that moment, the child would wait for it for ever. So a fork waits for fork_lock, which is held
 * only here. Takes fork_lock.
 */
static void *add_thread(struct pb_self *self)
{
    void *state;

    pthread_mutex_lock(&self->fork_lock);
    state = self->py.PyThreadState_New(main_interpreter(&self->py));
    pthread_mutex_unlock(&self->fork_lock);
    return state;
}

/*
 * The wait has an end: who adds a thread may need the GIL for it, which the forking thread has
 * (tracemalloc takes it for each block). From 3.13 on the interpreter itself sees to it, and has
 * its lock by now.
 */
static void before_fork(void)
{
    struct pb_self *self = pb_self();

    if (self->py.api.fork_waits)
        return;
    for (int i = 0; i < FORK_WAIT_MS; i++) {
        if (pthread_mutex_trylock(&self->fork_lock) == 0) {
            self->forking = (pid_t)syscall(SYS_gettid);
            return;
        }
        usleep(1000);
    }
}

static void in_parent(void)
{
    struct pb_self *self = pb_self();
    pid_t own = (pid_t)syscall(SYS_gettid);

    if (atomic_compare_exchange_strong(&self->forking, &own, 0))
        pthread_mutex_unlock(&self->fork_lock);
}

static void in_child(void)
{
    struct pb_self *self = pb_self();

    pthread_mutex_init(&self->fork_lock, NULL);
    self->forking = 0;
}

void pb_gil_init(struct pb_self *self)
{
    pthread_mutex_init(&self->fork_lock, NULL);
    pthread_atfork(before_fork, in_parent, in_child);
}

bool pb_gil_enter(struct pb_self *self, uint64_t deadline_ns, void **ret_state)
{
    void *state = NULL;

    self->inside++;
    if (!is_ending(self) && make_gil(self, deadline_ns) && !is_ending(self))
        state = add_thread(self);
    if (!state) {
        self->inside--;
        return false;
    }
    self->gil_waiters++;
    request_yield(self);
    self->py.PyEval_RestoreThread(state);
    self->gil_waiters--;
    futex_wake(&self->gil_waiters);
    *ret_state = state;
    return true;
}

void pb_gil_leave(struct pb_self *self, void *state)
{
    self->py.PyThreadState_Clear(state);
    self->py.PyThreadState_DeleteCurrent();
    self->inside--;
}
