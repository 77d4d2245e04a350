/*
 * What a thread is and does, by what was captured of it and by the kernel.
 */
#include "stack/describe.h"

#include <sys/syscall.h>

#include "stack/python/threads.h"

/* Waits that are a thread's rest rather than waiting for something in particular. */
static bool is_rest(const struct pb_proc_wait *wait)
{
    switch (wait->nr) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_epoll_pwait:
    case SYS_accept:
    case SYS_accept4:
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
        return true;
    case SYS_pselect6: /* without descriptors: a sleep, as time.sleep() makes it to 3.10 */
        return wait->args[0] == 0;
    case SYS_ppoll:
        return wait->args[1] == 0;
#ifdef SYS_epoll_wait /* calls that newer architectures do without */
    case SYS_epoll_wait:
    case SYS_pause:
        return true;
    case SYS_select:
        return wait->args[0] == 0;
    case SYS_poll:
        return wait->args[1] == 0;
#endif
    }
    return false;
}

enum pb_state pb_state_of(const struct pb_proc_wait *wait, bool process_stopped)
{
    if (process_stopped)
        return PB_STOPPED;
    if (!wait->blocked)
        return PB_RUNNING;
    return is_rest(wait) ? PB_IDLE : PB_WAITING;
}

const char *pb_state_name(enum pb_state state)
{
    static const char *const names[] = {
        [PB_RUNNING] = "running",
        [PB_IDLE] = "idle",
        [PB_WAITING] = "waiting",
        [PB_STOPPED] = "stopped",
        [PB_DUMPED] = "dumped",
    };

    return names[state];
}

static bool waits_gil(const struct pb_work *w)
{
    for (size_t i = 0; i < w->npy; i++)
        if (!w->py[i]->holds_gil && pb_py_wants_gil(w->py[i], &w->capture.wait))
            return true;
    return false;
}

/*
 * From 3.15 on the interpreter tells the frame in which the collection began. Before, a finalizer
 * that gives the GIL away makes the next one that has it look like the collector.
 */
static bool collects(const struct pb_py_layout *py, const struct pb_work *w)
{
    const struct pb_py_raw_stack *s = &w->capture.python;
    bool any = false;

    for (size_t i = 0; i < w->npy; i++) {
        uint64_t frame = w->py[i]->gc_frame;

        any = any || w->py[i]->collecting;
        for (size_t k = 0; frame && k < s->n; k++)
            if (s->v[k].addr == frame)
                return true;
    }
    return any && (py->interp_gc_frame == PB_NONE || !w->py[0]->gc_frame);
}

static const char *wait_name(pid_t pid, pid_t tid, const struct pb_proc_wait *wait,
                             struct pb_arena *a)
{
    const char *name = wait->nr >= 0 ? pb_proc_syscall_name(wait->nr) : NULL;
    char wchan[64];

    if (!wait->blocked)
        return NULL;
    if (name)
        return name;
    pb_proc_wchan(wchan, sizeof wchan, pid, tid);
    return wchan[0] ? pb_arena_strdup(a, wchan) : NULL;
}

void pb_describe_thread(const struct pb_described *of, const struct pb_work *w, struct pb_arena *a,
                        struct pb_thread *ret)
{
    struct pb_proc_stat st;
    struct pb_err ignored = {0};

    ret->tid = ret->ns_tid = w->tid;
    ret->python = w->npy > 0;
    ret->is_main = w->tid == of->pid;
    for (size_t i = 0; i < w->npy; i++) {
        ret->holds_gil = ret->holds_gil || w->py[i]->holds_gil;
        ret->name = ret->name ? ret->name : w->py[i]->name;
    }
    ret->collecting = collects(of->py, w);
    if (w->npy)
        ret->interpreter = w->py[w->capture.python.n ? w->capture.python.v[0].part : 0]->interp_id;
    ret->waits_gil = waits_gil(w);
    ret->state = pb_state_of(&w->capture.wait, of->stopped);
    ret->wait = of->stopped ? NULL : wait_name(of->pid, w->tid, &w->capture.wait, a);
    ret->blocked = w->capture.wait;
    ret->torn = w->capture.torn;
    ret->pause_us = w->capture.pause_us;
    if (!ret->name && ret->is_main && w->npy)
        ret->name = "MainThread";
    if (!ret->name && pb_proc_stat(&st, of->pid, w->tid, &ignored) == 0)
        ret->name = pb_arena_strdup(a, st.comm);
    if (of->ns_pid != of->pid) {
        struct pb_proc_status status;

        if (pb_proc_status(&status, w->tid, &ignored) == 0)
            ret->ns_tid = status.ns_pid;
    }
}

/* The thread with this pthread_t. */
static pid_t find_ident(const struct pb_work *work, size_t n, uint64_t ident)
{
    for (size_t i = 0; ident && i < n; i++)
        for (size_t k = 0; k < work[i].npy; k++)
            if (work[i].py[k]->ident == ident)
                return work[i].tid;
    return 0;
}

void pb_describe_locks(struct pb_py_codes *codes, const struct pb_work *work, size_t n, size_t at,
                       struct pb_arena *a, struct pb_thread *ret)
{
    const struct pb_work *w = &work[at];
    const struct pb_py_raw_stack *s = &w->capture.python;
    const struct pb_proc_wait *wait = &w->capture.wait;

    if (!w->npy || !s->n)
        return;
    ret->nawaits = pb_py_awaits(codes, s, w->codes, a, &ret->awaits);
    ret->nheld = pb_py_locks_held(codes, s, a, &ret->held);
    if (!wait->blocked || wait->nr != SYS_futex || ret->waits_gil)
        return;
    if (pb_py_lock_waited(codes, s, w->codes, wait->args[0], a, &ret->lock))
        ret->on_tid = find_ident(work, n, ret->lock.owner);
    if (!ret->on_tid)
        ret->on_tid = find_ident(work, n, pb_py_thread_joined(codes, s, w->codes, a));
}
