#include "stack/stop/stop.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/process/proc.h"

/*
 * How long one is waited for that sleeps uninterruptibly, and one that runs or waits for a CPU: it
 * stops as soon as it has one. Less while others are held for it.
 */
static const struct patience {
    uint64_t asleep_ns, running_ns;
} alone = {2000000000u, 10000000000u}, among_others = {50000000u, 2000000000u};
/* How often its state is asked for. */
#define LOOK_NS 25000000u
/*
 * A thread on another CPU stops within this. Giving the CPU away before that
 * may mean to get it back much later, with the thread held all the while.
 */
#define SPIN_NS 60000
/* Longest sleep between two looks; the signal of the stop normally ends it at once. */
#define NAP_NS 1000000

static int signal_of(int status)
{
    /* A signal that came first stops the thread as well; it is delivered at the end. */
    return status >> 16 == 0 ? WSTOPSIG(status) : 0;
}

/* Only a stopped thread can be released. */
size_t pb_stop_release_abandoned(struct pb_tracer *by)
{
    for (size_t i = by->nlate; i-- > 0;) {
        pid_t tid = by->late[i];
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

        if (got == 0 || (got < 0 && errno == EINTR))
            continue;
        if (got == tid && WIFSTOPPED(status)) {
            pb_arch_restart_interrupted(tid);
            ptrace(PTRACE_DETACH, tid, NULL, (void *)(long)signal_of(status));
        }
        by->late[i] = by->late[--by->nlate];
    }
    return by->nlate;
}

static bool is_late(const struct pb_tracer *by, pid_t tid)
{
    for (size_t i = 0; i < by->nlate; i++)
        if (by->late[i] == tid)
            return true;
    return false;
}

static bool sleeps_deeply(pid_t tid)
{
    struct pb_err ignored = {0};
    struct pb_proc_stat stat;

    return pb_proc_stat(&stat, tid, 0, &ignored) == 0 && stat.state == 'D';
}

static enum pb_stop_result seize_error(void)
{
    return errno == ESRCH ? PB_STOP_GONE : PB_STOP_DENIED;
}

enum pb_stop_result pb_stop_request(struct pb_stop *s, struct pb_tracer *by, pid_t tid)
{
    *s = (struct pb_stop){.by = by, .tid = tid};
    pb_stop_release_abandoned(by);
    if (is_late(by, tid))
        return PB_STOP_TIMEOUT;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
        return seize_error();
    s->seized = true;
    s->since = pb_clock_ns();
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
        pb_stop_end(s);
        return PB_STOP_GONE;
    }
    return PB_STOP_OK;
}

/* True: there is an answer. */
static bool is_answered(struct pb_stop *s, enum pb_stop_result *ret)
{
    int status;
    pid_t got = waitpid(s->tid, &status, __WALL | WNOHANG);

    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    s->stopped = got == s->tid && WIFSTOPPED(status);
    s->seized = s->stopped;
    *ret = s->stopped ? PB_STOP_OK : PB_STOP_GONE;
    if (s->stopped)
        s->signal = signal_of(status);
    return true;
}

/* Until it has stopped, or will not in time. */
static enum pb_stop_result await_stop(struct pb_stop *s, uint64_t start, const struct patience *p)
{
    const struct timespec nap = {0, NAP_NS};
    uint64_t look = start + LOOK_NS;
    enum pb_stop_result rc;
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        uint64_t now = pb_clock_ns();

        if (is_answered(s, &rc))
            return rc;
        if (now > start + p->running_ns ||
            (now > look && now > start + p->asleep_ns && sleeps_deeply(s->tid)))
            return PB_STOP_TIMEOUT;
        if (now > look)
            look = now + LOOK_NS;
        s->since = now; /* it was still running then */
        sigtimedwait(&child, NULL, &nap);
    }
}

enum pb_stop_result pb_stop_await(struct pb_stop *s, bool others_held)
{
    uint64_t start = s->since, now;
    enum pb_stop_result rc = PB_STOP_OK;
    bool done;

    do {
        now = pb_clock_ns();
        done = is_answered(s, &rc);
        if (!done)
            s->since = now;
    } while (!done && now - start < SPIN_NS);
    if (!done) {
        /* It may need the very CPU that this thread has. */
        pb_priority_yield(&s->by->priority);
        rc = await_stop(s, start, others_held ? &among_others : &alone);
        pb_priority_reraise(&s->by->priority);
    }
    if (s->stopped)
        pb_arch_restart_interrupted(s->tid);
    if (rc == PB_STOP_TIMEOUT)
        pb_stop_end(s);
    return rc;
}

enum pb_stop_result pb_stop_begin(struct pb_stop *s, struct pb_tracer *by, pid_t pid, pid_t tid,
                                  bool even_blocked)
{
    enum pb_stop_result rc;

    if (!even_blocked) {
        struct pb_proc_wait wait;

        pb_proc_wait(&wait, pid, tid);
        if (wait.readable && wait.blocked) {
            memset(s, 0, sizeof *s);
            return PB_STOP_BLOCKED;
        }
    }
    rc = pb_stop_request(s, by, tid);
    return rc == PB_STOP_OK ? pb_stop_await(s, false) : rc;
}

double pb_stop_end(struct pb_stop *s)
{
    double us;

    if (!s->seized)
        return 0;
    if (ptrace(PTRACE_DETACH, s->tid, NULL, (void *)(long)s->signal) < 0 && !s->stopped &&
        s->by->nlate < PB_TRACER_LATE)
        s->by->late[s->by->nlate++] = s->tid;
    us = (double)(pb_clock_ns() - s->since) / 1000.0;
    s->seized = s->stopped = false;
    return us;
}

size_t pb_stop_registers(const struct pb_stop *s, void *buf, size_t cap)
{
    struct iovec iov = {buf, cap};

    if (!s->stopped || ptrace(PTRACE_GETREGSET, s->tid, (void *)NT_PRSTATUS, &iov) < 0)
        return 0;
    return iov.iov_len;
}
