#include "stack/stop/priority.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The shortest slice that the kernel grants (6.12 and later). */
#define SLICE_NS 100000
#define BEST_NICE (-20)

/* As the kernel has it; older C libraries have no type and no function for it. */
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static int set(uint64_t slice_ns, int nice)
{
    struct attr a = {.size = sizeof a, .nice = nice, .runtime = slice_ns};

    return (int)syscall(SYS_sched_setattr, 0, &a, 0);
}

static void raise_priority(const struct pb_priority *h)
{
    if (h->ordinary && set(SLICE_NS, BEST_NICE) < 0)
        set(SLICE_NS, h->nice);
}

void pb_priority_raise(struct pb_priority *h)
{
    sigset_t child;

    /* The stop is announced by SIGCHLD, which stop.c waits for. */
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &h->mask);
    h->nice = getpriority(PRIO_PROCESS, 0);
    h->ordinary = sched_getscheduler(0) == SCHED_OTHER;
    h->raised = true;
    raise_priority(h);
}

void pb_priority_yield(const struct pb_priority *h)
{
    if (h->raised && h->ordinary)
        set(SLICE_NS, h->nice);
}

void pb_priority_reraise(const struct pb_priority *h)
{
    if (h->raised)
        raise_priority(h);
}

void pb_priority_restore(struct pb_priority *h)
{
    h->raised = false;
    if (h->ordinary)
        set(0, h->nice);
    sigprocmask(SIG_SETMASK, &h->mask, NULL);
}
