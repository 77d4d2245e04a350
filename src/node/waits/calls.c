/*
 * What a thread waits for by the system call that it is in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "host/process/maps.h"
#include "host/process/mem.h"
#include "host/process/proc.h"
#include "node/waits/internal.h"

void pb_wait_add_peer(struct pb_wait *w, pid_t pid, pid_t tid)
{
    if (w->npeers < PB_WAIT_PEERS && pid > 0)
        w->peers[w->npeers++] = (struct pb_wait_peer){pid, tid};
}

void pb_wait_for_gil(struct pb_wait *w)
{
    w->kind = PB_WAIT_GIL;
    w->what = "the GIL";
    for (size_t i = 0; i < w->snapshot->nthreads; i++)
        if (w->snapshot->threads[i].holds_gil)
            pb_wait_add_peer(w, w->process->pid, w->snapshot->threads[i].tid);
}

/* Who holds the lock by a `with`? */
static void find_holder(struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;

    for (size_t i = 0; !w->npeers && t->lock.object && i < w->snapshot->nthreads; i++) {
        const struct pb_thread *o = &w->snapshot->threads[i];
        size_t own = 0;

        for (size_t k = 0; k < o->nheld; k++)
            own += o->held[k] == t->lock.object;
        /* The `with` that waits has its __exit__ on the stack already. */
        if (own > (o == t))
            pb_wait_add_peer(w, w->process->pid, o->tid);
    }
}

static bool is_shared(pid_t pid, uint64_t addr)
{
    struct pb_err ignored = {0};
    struct pb_maps maps = {0};
    const struct pb_map *m;
    bool shared;

    if (pb_maps_read(&maps, pid, &ignored) < 0)
        return false;
    m = pb_maps_find(&maps, addr);
    shared = m && m->shared;
    pb_maps_finish(&maps);
    return shared;
}

static void wait_on_futex(struct pb_wait_look *l, struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;

    w->timed = t->blocked.args[3] != 0;
    if (t->on_tid)
        pb_wait_add_peer(w, w->process->pid, t->on_tid);
    if (pb_wait_by_frames(w) || pb_wait_by_native(w)) {
        if (w->kind == PB_WAIT_LOCK)
            find_holder(w);
        return;
    }
    w->kind = PB_WAIT_LOCK;
    w->what = "a lock";
    if (t->lock.object) {
        w->what = pb_arena_printf(l->arena, "%s%s%s", t->lock.reentrant ? "an RLock" : "a lock",
                                  t->lock.name ? ", " : "", t->lock.name ? t->lock.name : "");
        find_holder(w);
    } else if (is_shared(w->process->pid, t->blocked.args[0])) {
        w->kind = PB_WAIT_PROCESS_LOCK;
        w->what = "a lock between processes";
    } else if (!w->user) {
        w->kind = PB_WAIT_OTHER;
        w->what = NULL;
    }
}

static void add_children(struct pb_wait_look *l, struct pb_wait *w)
{
    pid_t *pids;
    struct pb_err ignored = {0};
    int n = pb_proc_pids(l->arena, &pids, &ignored);

    for (int i = 0; i < n; i++) {
        struct pb_proc_stat st;

        if (pb_proc_stat(&st, pids[i], 0, &ignored) == 0 && st.ppid == w->process->pid &&
            st.state != 'Z')
            pb_wait_add_peer(w, pids[i], 0);
        ignored = (struct pb_err){0};
    }
}

/* "Pid:\t1234" of a pidfd. */
static pid_t pidfd_pid(struct pb_wait_look *l, pid_t pid, int fd)
{
    char name[40];
    size_t len;
    char *text, *at;

    snprintf(name, sizeof name, "fdinfo/%d", fd);
    text = pb_proc_read(pid, name, l->arena, &len);
    at = text ? strstr(text, "\nPid:") : NULL;
    return at ? (pid_t)strtol(at + 5, NULL, 10) : 0;
}

static void wait_for_child(struct pb_wait_look *l, struct pb_wait *w)
{
    const uint64_t *args = w->thread->blocked.args;
    long id = w->thread->blocked.nr == SYS_wait4 ? (int)args[0] : 0;

    w->kind = PB_WAIT_CHILD;
    if (w->thread->blocked.nr == SYS_waitid) {
        id = args[0] == 1   ? (int)args[1]
             : args[0] == 3 ? pidfd_pid(l, w->process->pid, (int)args[1])
                            : 0;
    }
    if (id > 0)
        pb_wait_add_peer(w, (pid_t)id, 0);
    else
        add_children(l, w);
    w->what = w->npeers
                  ? pb_arena_printf(l->arena, "process %d (%s) to end", (int)w->peers[0].pid,
                                    pb_proc_command(w->peers[0].pid, l->arena))
                  : "a child to end";
}

/* A longer one was not read right: the thread ran meanwhile. */
#define SLEEP_MAX_S 10000000000

/* How long a sleep still lasts; -1 when it cannot be told. */
static double sleep_left(const struct pb_wait *w)
{
    const struct pb_proc_wait *b = &w->thread->blocked;
    struct timespec asked, now;
    struct pb_mem mem;
    bool absolute;

    if (b->nr != SYS_clock_nanosleep)
        return -1;
    absolute = b->args[1] == TIMER_ABSTIME;
    pb_mem_init_process(&mem, w->process->pid);
    if (!pb_mem_get(&mem, b->args[2], &asked, sizeof asked) || asked.tv_nsec < 0 ||
        asked.tv_nsec > 999999999 || asked.tv_sec < 0 || asked.tv_sec > SLEEP_MAX_S)
        return -1;
    if (!absolute)
        return (double)asked.tv_sec * 1e3 + (double)asked.tv_nsec / 1e6;
    clock_gettime((clockid_t)(b->args[0] & 15), &now);
    return (double)(asked.tv_sec - now.tv_sec) * 1e3 +
           (double)(asked.tv_nsec - now.tv_nsec) / 1e6;
}

static void sleeps(struct pb_wait_look *l, struct pb_wait *w)
{
    w->kind = PB_WAIT_SLEEP;
    w->timed = true;
    w->left_ms = sleep_left(w);
    w->what = w->left_ms >= 0 ? pb_arena_printf(l->arena, "time to pass: %.0f s more",
                                                w->left_ms / 1000)
                              : "time to pass";
}

/* The calls that are about one descriptor, their first argument. */
static bool one_descriptor(struct pb_wait_look *l, struct pb_wait *w)
{
    const struct pb_proc_wait *b = &w->thread->blocked;
    int fd = (int)b->args[0];

    switch (b->nr) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_recvfrom:
    case SYS_recvmsg:
        pb_wait_descriptor(l, w, fd, false, "data from");
        return true;
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_sendto:
    case SYS_sendmsg:
        pb_wait_descriptor(l, w, fd, true, "room in");
        return true;
    case SYS_connect:
        pb_wait_descriptor(l, w, fd, true, "an answer by");
        return true;
    case SYS_accept:
    case SYS_accept4:
        w->kind = PB_WAIT_LISTEN;
        w->what = "a client to connect";
        w->outside = true;
        return true;
    case SYS_fsync:
    case SYS_fdatasync:
        w->kind = PB_WAIT_DISK;
        w->what = "a disk";
        return true;
    case SYS_flock:
    case SYS_fcntl:
        pb_wait_file_lock(l, w, fd);
        return true;
    case SYS_openat:
        w->kind = PB_WAIT_PIPE;
        w->what = "a named pipe to be opened at its other end";
        w->alone = true;
        return true;
    }
    return false;
}

void pb_wait_by_call(struct pb_wait_look *l, struct pb_wait *w)
{
    const struct pb_proc_wait *b = &w->thread->blocked;

    switch (b->nr) {
    case SYS_futex:
        wait_on_futex(l, w);
        return;
    case SYS_wait4:
    case SYS_waitid:
        wait_for_child(l, w);
        return;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
        sleeps(l, w);
        return;
    case SYS_rt_sigtimedwait:
    case SYS_rt_sigsuspend:
        w->kind = PB_WAIT_SIGNAL;
        w->what = "a signal";
        w->outside = true;
        return;
    }
    if (one_descriptor(l, w))
        return;
    if (w->thread->state == PB_IDLE && strstr("select ppoll pselect6 poll pause",
                                               w->thread->wait ? w->thread->wait : "?")) {
        sleeps(l, w);
        w->outside = true;
        return;
    }
    pb_wait_descriptors(l, w);
}
