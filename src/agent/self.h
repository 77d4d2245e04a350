/*
 * self.h - the agent of this process: all of its state.
 *
 * Owns: everything. Made once at the first start and never freed, since calls
 * that the interpreter has queued may come back at any time.
 * Threads: `lock` guards clients' outboxes and jobs; it is held for copies
 * only, never across a system call that waits or while asking for the GIL.
 * Fields marked control belong to the agent's thread.
 * Fails: never.
 * Not here: what the parts do.
 */
#ifndef PB_AGENT_SELF_H
#define PB_AGENT_SELF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/collect/state.h"
#include "agent/py/api.h"
#include "agent/py/words.h"
#include "agent/streams.h"
#include "agent/user/state.h"
#include "base/home.h"
#include "base/settings.h"
#include "base/wire.h"

enum {
    PB_CLIENTS = 32,
    PB_JOBS = 16,
    PB_OUTBOX = 256 << 10,
    PB_OUTBOX_RESERVE = 16 << 10, /* kept free of output, so that an answer always fits */
};

/* Bytes for one client, in a circle. */
struct pb_outbox {
    unsigned char *data; /* PB_OUTBOX bytes */
    size_t at, len;
};

struct pb_client {
    int fd; /* -1: free */
    uint32_t serial;
    bool gone;         /* to be closed by control */
    bool leaving; /* asked for the end, and hears of it last */
    uint32_t eject_id;
    bool has_session;  /* the glue keeps `_` for it */
    uid_t uid;         /* whose process it is; of a node, who asks through it: -1 unknown */
    pid_t pid;
    char name[PB_WIRE_CLIENT_NAME]; /* as a node calls who asks through it, or "" */
    bool spoke;        /* sent a message: too late to say in whose name it asks */
    uint64_t seen_ns;  /* control: last message */
    struct pb_wire_in in; /* control */
    size_t body_size;  /* control: of in.body's mapping */
    struct pb_outbox out;
};

enum pb_job_state {
    PB_JOB_FREE,
    PB_JOB_WAITING, /* for the interpreter */
    PB_JOB_ENTERED, /* a thread has it, inside the interpreter */
    PB_JOB_RUNNING, /* may be interrupted */
    PB_JOB_ENDING,
};

struct pb_job {
    enum pb_job_state state;
    uint32_t number; /* never used twice */
    bool answered;   /* the client has its DONE, or is gone: nothing more is sent */
    bool breaking, thrown;
    enum pb_wire_result verdict; /* once broken: why */
    int client;
    uint32_t client_serial, id;
    bool complete; /* a completion, not an evaluation */
    bool audited;
    struct pb_wire_eval how;
    void *map; /* the message; code is in it */
    size_t map_size;
    const char *code;
    size_t code_len;
    const char *frame_name; /* the function whose frame is meant; NULL: by number */
    size_t frame_name_len;
    uint64_t asked_ns, deadline_ns;
    int64_t asked_wall_ns;
    uid_t peer_uid;
    pid_t peer_pid;
    char peer_name[PB_WIRE_CLIENT_NAME];
    uint64_t printed, print_limit;
    unsigned long ident; /* the evaluating thread, as Python calls it */
};

enum pb_life { PB_LIFE_STOPPED, PB_LIFE_STARTING, PB_LIFE_RUNNING, PB_LIFE_STOPPING };

struct pb_self {
    pthread_mutex_t lock;
    pthread_mutex_t life_lock; /* start and stop, one at a time */
    pthread_mutex_t home_lock; /* making the folder, or the end of the process */
    _Atomic int life;
    pid_t pid;
    uint64_t started_ns;
    char home[PB_HOME_MAX]; /* "" when there is none */
    int listener;
    pthread_mutex_t wake_lock; /* of wake alone; nothing else is locked while it is held */
    int wake;                  /* eventfd of the agent's thread, or -1 */
    _Atomic bool stop_wanted;
    bool ejected; /* control */
    bool restart_in_child;
    int open_delay_ms;
    bool ptracer_set;
    struct pb_settings settings; /* changed under lock, read by pb_self_setting */
    char env_note[160]; /* the first variable that made no sense */
    struct pb_client clients[PB_CLIENTS];
    struct pb_job jobs[PB_JOBS];
    uint32_t serial; /* last number given to a client or job */
    uint32_t left[PB_CLIENTS]; /* under lock: clients whose `_` is to be forgotten */
    int left_count;
    uint64_t served;

    struct pb_py py;
    struct pb_words words;
    _Atomic unsigned chores;
    _Atomic bool helper;     /* a thread is at the chores */
    _Atomic int inside;      /* threads of ours that want or have the interpreter */
    _Atomic bool finalizing; /* the interpreter is ending: never enter again */
    _Atomic int gil_waiters;
    _Atomic bool yield_queued;
    _Atomic bool hooks_set, fork_hook_set;
    struct _object *exit_hook;
    _Atomic int glue_state; /* 0 none, 1 being made, 2 there */
    _Atomic bool glue_stale; /* it remembers threads of the process that this one was forked from */
    struct _object *glue;
    struct pb_streams streams;

    struct pb_collect collect;
    struct pb_user user;
};

/* NULL before the first start. The one global. */
struct pb_self *pb_self(void);
/* A setting's present value. Any thread. */
static inline int64_t pb_self_setting(const struct pb_self *self, int id)
{
    return __atomic_load_n(&self->settings.v[id], __ATOMIC_RELAXED);
}

/* Makes the agent's thread look at what changed. Any thread. */
void pb_self_wake(struct pb_self *self);
/* Starts a detached thread; 0 or a negative errno. */
int pb_self_thread(void *(*run)(void *), void *arg, size_t stack);

#endif
