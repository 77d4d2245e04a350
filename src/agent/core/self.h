/*
 * self.h - the agent of this process: what all of its parts use.
 *
 * Owns: the state of the agent. Made once at the first start and never freed, since calls that the
 * interpreter has queued may come back at any time.
 * Threads: as said at each field. `lock` is held for copies only, never across a system call that
 * waits or while asking for the GIL.
 * Fails: never.
 * Not here: the state of the parts, which each has its own header.
 */
#ifndef PB_AGENT_CORE_SELF_H
#define PB_AGENT_CORE_SELF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/py/api.h"
#include "agent/py/names.h"
#include "base/home.h"
#include "base/settings.h"

struct pb_server;  /* agent/server.h */
struct pb_glue;    /* agent/glue.h */
struct pb_collect; /* agent/collectors/state.h */
struct pb_user;    /* agent/user/state.h */

enum pb_life { PB_LIFE_STOPPED, PB_LIFE_STARTING, PB_LIFE_RUNNING, PB_LIFE_STOPPING };

struct pb_self {
    pthread_mutex_t lock;      /* for settings, clients' outboxes and jobs */
    pthread_mutex_t life_lock; /* start and stop, one at a time */
    pthread_mutex_t home_lock; /* making the folder, or the end of the process */
    pthread_mutex_t wake_lock; /* for wake; nothing else is locked while it is held */
    pthread_mutex_t fork_lock; /* adding a thread to the interpreter, or a fork */
    _Atomic pid_t forking;     /* thread that forks and has fork_lock; 0: none */
    int wake;                  /* eventfd of the agent's thread, or -1 */
    _Atomic int life;          /* enum pb_life */
    pid_t pid;
    uint64_t started_ns;
    char home[PB_HOME_MAX];    /* folder of this process; "" when there is none */
    _Atomic bool stop_wanted;
    bool restart_in_child;     /* a forked child gets an agent of its own */
    int open_delay_ms;         /* delay before the folder is made */
    bool ptracer_set;          /* somebody was named as tracer */
    struct pb_settings settings; /* written with lock held, read by pb_self_setting */
    char env_note[160];        /* the first environment variable that made no sense */

    struct pb_py py;
    struct pb_names names;
    _Atomic int inside;        /* threads of ours that want or have the interpreter */
    _Atomic bool finalizing;   /* the interpreter is ending: never enter again */
    _Atomic int gil_waiters;   /* threads of ours that wait for the GIL */
    _Atomic bool yield_queued; /* the main thread is asked to give the GIL away */
    _Atomic bool hooks_set;    /* the end of the interpreter will be told */
    _Atomic bool fork_hook_set;
    struct _object *exit_hook; /* made once and kept for ever */
    _Atomic unsigned gil_tasks; /* enum pb_gil_task that are to be run */
    _Atomic bool helper;       /* a thread runs gil_tasks */
    void (*run_gil_tasks)(struct pb_self *self, unsigned tasks); /* GIL held */
    /* GIL held: gives the pending exception to the program, if a signal's handler raised it. */
    bool (*hand_back)(struct pb_self *self);

    struct pb_server *server;
    struct pb_glue *glue;
    struct pb_collect *collect;
    struct pb_user *user;
};

/* NULL before the first start. The one global: a loaded library gets no argument. */
struct pb_self *pb_self(void);
/* Makes this the agent of the process, unless another thread was quicker; returns which it is. */
struct pb_self *pb_self_set(struct pb_self *self);

/* Any thread: a setting's present value. */
static inline int64_t pb_self_setting(const struct pb_self *self, int id)
{
    return __atomic_load_n(&self->settings.v[id], __ATOMIC_RELAXED);
}

/* Any thread: makes the agent's thread look at what changed. */
void pb_self_wake(struct pb_self *self);
/* Starts a detached thread; 0 or a negative errno. */
int pb_self_thread(void *(*run)(void *), void *arg, size_t stack);

#endif
