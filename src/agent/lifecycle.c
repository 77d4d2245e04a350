#include "agent/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/arch/symver.h"
#include "agent/collectors/collect.h"
#include "agent/collectors/crash/crash.h"
#include "agent/control.h"
#include "agent/core/gil.h"
#include "agent/core/gil_tasks.h"
#include "agent/glue.h"
#include "agent/jobs.h"
#include "agent/server.h"
#include "agent/tracer.h"
#include "agent/user/state.h"
#include "agent/user/user.h"
#include "base/clock.h"
#include "base/pages.h"

#define STACK (256 << 10)
/* A child that is about to run another program has done so by then. */
#define CHILD_DELAY_MS 50
#define START_MS 1000
#define STOP_MS 2000
#define END_MS 1000
/* How long the end of the process waits for a folder that is just being made. */
#define HOME_MS 200

/* The process has come to its destructors: no folder is made any more. */
static _Atomic bool ending;

/* What pthread_atfork registers under; the start files that define it are left out. */
__attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;

void pb_lifecycle_apply_settings(struct pb_self *self, const struct pb_settings *settings)
{
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < PB_SETTING_COUNT; i++)
        __atomic_store_n(&self->settings.v[i], settings->v[i], __ATOMIC_RELAXED);
    memcpy(self->settings.text, settings->text, sizeof settings->text);
    pthread_mutex_unlock(&self->lock);
    pb_collect_settings_changed(self);
    if (!settings->v[PB_SET_AGENT_ALLOW_PTRACE])
        pb_tracer_forbid(self);
}

/*
 * A folder that is made later than the destructors run would stay: a library that is loaded while
 * they do has none that is called, but then the interpreter has ended before.
 */
static int open_home(struct pb_self *self)
{
    int rc = -ESRCH;

    pthread_mutex_lock(&self->home_lock);
    if (!ending && self->py.Py_IsInitialized())
        rc = pb_control_open(self);
    if (rc >= 0)
        pb_collect_start(self);
    pthread_mutex_unlock(&self->home_lock);
    return rc;
}

void pb_lifecycle_remove_home(struct pb_self *self)
{
    char home[PB_HOME_MAX];

    /* The end of the process may be at it, too: only one of them gets the name. */
    pthread_mutex_lock(&self->home_lock);
    memcpy(home, self->home, sizeof home);
    self->home[0] = '\0';
    pthread_mutex_unlock(&self->home_lock);
    if (home[0])
        pb_home_remove(home);
}

static void *agent_thread(void *arg)
{
    struct pb_self *self = arg;

    prctl(PR_SET_NAME, "probing");
    if (self->open_delay_ms) {
        usleep((useconds_t)self->open_delay_ms * 1000);
        if (open_home(self) < 0) {
            self->life = PB_LIFE_STOPPED;
            return NULL;
        }
    }
    pb_gil_task_add(self, PB_GIL_TASK_HOOKS | PB_GIL_TASK_COLLECT);
    pb_control_serve(self);
    if (pb_crash_state(self))
        pb_crash_disarm(pb_crash_state(self));
    pb_tracer_forbid(self);
    self->life = PB_LIFE_STOPPED;
    return NULL;
}

/*
 * Starts the agent's thread. delay_ms: that thread makes the folder later. Called with life_lock
 * held.
 */
static int start(struct pb_self *self, int delay_ms)
{
    int rc = 0;

    self->pid = getpid();
    self->started_ns = pb_clock_ns();
    self->stop_wanted = false;
    self->finalizing = false;
    self->open_delay_ms = delay_ms;
    /* Before anybody is told that it runs: what the program writes next is to be kept. */
    if (!delay_ms)
        rc = open_home(self);
    if (rc < 0)
        return rc;
    self->life = PB_LIFE_RUNNING;
    rc = pb_self_thread(agent_thread, self, STACK);
    if (rc < 0) {
        self->life = PB_LIFE_STOPPED;
        pb_collect_stop(self, "ended");
        pb_lifecycle_remove_home(self);
        pb_control_close(self);
    }
    return rc;
}

static int restart_pending(void *arg)
{
    (void)arg;
    pb_lifecycle_after_fork(pb_self());
    return 0;
}

/* Runs in the child, where only the forking thread lives on: the copy drops everything. */
static void in_child(void)
{
    struct pb_self *self = pb_self();
    bool was_running;

    if (!self)
        return;
    was_running = self->life == PB_LIFE_RUNNING;
    pthread_mutex_init(&self->lock, NULL);
    pthread_mutex_init(&self->life_lock, NULL);
    pthread_mutex_init(&self->home_lock, NULL);
    pthread_mutex_init(&self->wake_lock, NULL);
    pb_control_close(self);
    for (int i = 0; i < PB_JOBS; i++)
        pb_pages_free(self->server->jobs[i].map, self->server->jobs[i].map_size);
    memset(self->server->jobs, 0, sizeof self->server->jobs);
    self->home[0] = '\0';
    pb_collect_forked(self);
    self->gil_tasks = 0;
    self->helper = self->yield_queued = self->stop_wanted = self->ptracer_set = false;
    self->inside = self->gil_waiters = self->server->left_count = 0;
    self->life = PB_LIFE_STOPPED;
    self->restart_in_child = was_running && pb_self_setting(self, PB_SET_AGENT_FOLLOW_FORKS);
    pb_glue_after_fork(self);
    pb_streams_after_fork(self);
    /* 3.6 has no os.register_at_fork. */
    if (was_running && self->py.api.pending_is_lockless)
        self->py.Py_AddPendingCall(restart_pending, NULL);
}

void pb_lifecycle_after_fork(struct pb_self *self)
{
    pb_glue_reset(self);
    if (!self->restart_in_child || self->life != PB_LIFE_STOPPED)
        return;
    self->restart_in_child = false;
    start(self, CHILD_DELAY_MS);
}

void pb_lifecycle_interpreter_ends(struct pb_self *self)
{
    void *state;

    self->finalizing = true;
    pb_jobs_break_all(self);
    for (int i = 0; i < END_MS && (i == 0 || self->inside > 0); i++) {
        pb_jobs_throw(self);
        state = self->py.PyEval_SaveThread();
        if (self->inside > 0)
            usleep(1000);
        self->py.PyEval_RestoreThread(state);
    }
    pb_collect_leave(self);
}

/* The agent and the state of its parts, in one piece of memory. */
struct whole {
    struct pb_self self;
    struct pb_server server;
    struct pb_glue glue;
    struct pb_collect collect;
    struct pb_user user;
};

/* `_` of clients that have left. */
static void forget_clients(struct pb_self *self)
{
    uint32_t left[PB_CLIENTS];
    int n;

    pthread_mutex_lock(&self->lock);
    n = self->server->left_count;
    memcpy(left, self->server->left, sizeof left);
    self->server->left_count = 0;
    pthread_mutex_unlock(&self->lock);
    for (int i = 0; i < n; i++)
        pb_glue_forget(self, left[i]);
}

static void run_gil_tasks(struct pb_self *self, unsigned tasks)
{
    /* As long as one is to be interrupted, the end of the interpreter waits for this thread. */
    if (tasks & PB_GIL_TASK_INTERRUPT && pb_jobs_throw(self)) {
        atomic_fetch_or(&self->gil_tasks,
                        tasks & (PB_GIL_TASK_INTERRUPT | PB_GIL_TASK_CLEANUP));
        tasks &= ~(unsigned)PB_GIL_TASK_CLEANUP;
    }
    if (tasks & PB_GIL_TASK_FORGET)
        forget_clients(self);
    if (tasks & PB_GIL_TASK_CLEANUP) {
        pb_collect_leave(self);
        pb_glue_drop(self);
    }
    if (tasks & PB_GIL_TASK_HOOKS)
        pb_glue_set_hooks(self);
    if (tasks & PB_GIL_TASK_COLLECT)
        pb_collect_run_inside(self, true);
}

static struct pb_self *make_self(void)
{
    struct pb_self *self = pb_self(), *made;
    struct whole *w;

    if (self)
        return self;
    w = pb_pages_get(sizeof *w);
    if (!w)
        return NULL;
    self = &w->self;
    self->server = &w->server;
    self->glue = &w->glue;
    self->collect = &w->collect;
    self->user = &w->user;
    self->run_gil_tasks = run_gil_tasks;
    self->hand_back = pb_glue_hand_back;
    self->collect->client = &pb_user_client;
    pthread_mutex_init(&self->lock, NULL);
    pthread_mutex_init(&self->life_lock, NULL);
    pthread_mutex_init(&self->home_lock, NULL);
    pthread_mutex_init(&self->wake_lock, NULL);
    pthread_mutex_init(&self->collect->lock, NULL);
    pthread_mutex_init(&self->user->lock, NULL);
    self->server->listener = self->wake = -1;
    for (int i = 0; i < PB_CLIENTS; i++)
        self->server->clients[i].fd = -1;
    made = pb_self_set(self);
    if (made != self)
        pb_pages_free(w, sizeof *w);
    else {
        pb_gil_init(self);
        pthread_atfork(NULL, NULL, in_child);
    }
    return made;
}

/*
 * Finds the interpreter, once: calls that came before may still be under way. Called with life_lock
 * held.
 */
static int find_python(struct pb_self *self)
{
    struct pb_py py = {0};
    int rc;

    if (self->py.major)
        return 0;
    rc = pb_py_find(&py);
    if (rc == 0) {
        self->py = py;
        pb_names_use(&self->names, &self->py);
    }
    return rc;
}

struct pb_self *pb_lifecycle_self(void)
{
    struct pb_self *self = make_self();
    int rc;

    if (!self || self->py.major)
        return self;
    pthread_mutex_lock(&self->life_lock);
    rc = find_python(self);
    pthread_mutex_unlock(&self->life_lock);
    return rc == 0 ? self : NULL;
}

static int apply_options(struct pb_settings *settings, const char *options)
{
    struct pb_err err = {0};

    return options && pb_settings_apply_lines(settings, options, strlen(options), &err) < 0
               ? -EINVAL
               : 0;
}

static int start_or_apply(struct pb_self *self, const char *options)
{
    struct pb_settings settings;
    int rc;

    /* One that was told to stop has said goodbye already, but is not quite gone. */
    for (int i = 0; i < STOP_MS && self->stop_wanted && self->life == PB_LIFE_RUNNING; i++)
        usleep(1000);
    if (self->life == PB_LIFE_RUNNING) {
        settings = self->settings;
        if (apply_options(&settings, options) < 0)
            return -EINVAL;
        pb_lifecycle_apply_settings(self, &settings);
        /* A forked child's agent takes a moment to open its door. */
        for (int i = 0; i < START_MS && self->server->listener < 0; i++) {
            if (self->life != PB_LIFE_RUNNING)
                break;
            usleep(1000);
        }
        return 1;
    }
    rc = find_python(self);
    if (rc < 0)
        return rc;
    pb_settings_init(&self->settings);
    pb_settings_read_env(&self->settings, self->env_note, sizeof self->env_note);
    if (apply_options(&self->settings, options) < 0)
        return -EINVAL;
    rc = start(self, 0);
    return rc == -EALREADY ? 1 : rc;
}

__attribute__((visibility("default"))) int probing_start(const char *options)
{
    struct pb_self *self = make_self();
    int rc;

    if (!self)
        return -ENOMEM;
    pthread_mutex_lock(&self->life_lock);
    rc = start_or_apply(self, options);
    pthread_mutex_unlock(&self->life_lock);
    return rc;
}

__attribute__((visibility("default"))) int probing_stop(void)
{
    struct pb_self *self = pb_self();
    bool stopped;

    if (!self || self->life == PB_LIFE_STOPPED)
        return 1;
    pthread_mutex_lock(&self->life_lock);
    self->stop_wanted = true;
    pb_self_wake(self);
    for (int i = 0; i < STOP_MS && self->life != PB_LIFE_STOPPED; i++)
        usleep(1000);
    stopped = self->life == PB_LIFE_STOPPED;
    pthread_mutex_unlock(&self->life_lock);
    return stopped ? 0 : -ETIMEDOUT;
}

/* At exit; a forked copy has no folder. */
__attribute__((destructor)) static void on_exit_of_process(void)
{
    struct pb_self *self;

    ending = true;
    self = pb_self();
    for (int i = 0; self && i < HOME_MS && pthread_mutex_trylock(&self->home_lock) != 0; i++)
        usleep(1000);
    if (self && self->collect->pid == getpid())
        pb_collect_unfollow(self);
    if (!self || !self->home[0] || self->pid != getpid())
        return;
    pb_collect_stop(self, "ended");
    pb_home_remove(self->home);
}
