#include "unwind/stop.h"

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
#include "host/proc.h"

/* A thread that does not stop within this is in an uninterruptible sleep. */
#define STOP_DEADLINE_NS 2000000000ull
/*
 * A thread on another CPU stops within this. Giving the CPU away before that
 * may mean to get it back much later, with the thread held all the while.
 */
#define SPIN_NS 60000
/* Longest sleep between two looks; the signal of the stop normally ends it at once. */
#define NAP_NS 1000000

static enum pb_stop_result seize_error(void)
{
    return errno == ESRCH ? PB_STOP_GONE : PB_STOP_DENIED;
}

enum pb_stop_result pb_stop_request(struct pb_stop *s, pid_t tid)
{
    memset(s, 0, sizeof *s);
    s->tid = tid;
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

enum pb_stop_result pb_stop_await(struct pb_stop *s)
{
    const struct timespec nap = {0, NAP_NS};
    uint64_t start = s->since;
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        uint64_t now = pb_clock_ns();
        int status;
        pid_t got = waitpid(s->tid, &status, __WALL | WNOHANG);

        if (got == s->tid && WIFSTOPPED(status)) {
            s->stopped = true;
            /* A signal that came first stops the thread as well; it is delivered at the end. */
            if (status >> 16 == 0)
                s->signal = WSTOPSIG(status);
            pb_arch_restart_interrupted(s->tid);
            return PB_STOP_OK;
        }
        if (got == s->tid || (got < 0 && errno != EINTR)) {
            s->seized = false;
            return PB_STOP_GONE;
        }
        if (now - start > STOP_DEADLINE_NS) {
            pb_stop_end(s);
            return PB_STOP_TIMEOUT;
        }
        s->since = now; /* it was still running then */
        if (now - start < SPIN_NS)
            continue;
        sigtimedwait(&child, NULL, &nap);
    }
}

enum pb_stop_result pb_stop_begin(struct pb_stop *s, pid_t pid, pid_t tid, bool even_blocked)
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
    rc = pb_stop_request(s, tid);
    return rc == PB_STOP_OK ? pb_stop_await(s) : rc;
}

double pb_stop_end(struct pb_stop *s)
{
    double us;

    if (!s->seized)
        return 0;
    /*
     * DETACH needs a stopped thread. One that never stopped stays seized until
     * this process ends; the request is harmless and is consumed then.
     */
    ptrace(PTRACE_DETACH, s->tid, NULL, (void *)(long)s->signal);
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
