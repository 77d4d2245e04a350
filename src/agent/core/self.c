#include "agent/core/self.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "agent/arch/symver.h"

static _Atomic(struct pb_self *) the_agent;

struct pb_self *pb_self(void)
{
    return the_agent;
}

struct pb_self *pb_self_set(struct pb_self *self)
{
    struct pb_self *none = NULL;

    return atomic_compare_exchange_strong(&the_agent, &none, self) ? self : none;
}

void pb_self_wake(struct pb_self *self)
{
    uint64_t one = 1;
    ssize_t n = 0;

    /* Once it is closed, the number may be that of a file of the program's. */
    pthread_mutex_lock(&self->wake_lock);
    if (self->wake >= 0)
        n = write(self->wake, &one, sizeof one);
    pthread_mutex_unlock(&self->wake_lock);
    (void)n;
}

/* Signals are the host's: none is ever delivered to a thread of ours, except its own faults. */
int pb_self_thread(void *(*run)(void *), void *arg, size_t stack)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&all, own[i]);
    if (pthread_attr_init(&attr) != 0)
        return -ENOMEM;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, stack);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return -rc;
}
