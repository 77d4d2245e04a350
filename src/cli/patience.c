#include "cli/patience.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "host/os/signals.h"
#include "host/process/stall.h"

#define EXIT_INTERRUPTED 130
#define LOOK_NS 200000000
#define INTERRUPT_NS 400000000ull
#define PATIENCE_NS 10000000000ull

/* One to a process, and a thread gets no better argument than that. */
static struct pb_stalls stalls;

/* Nobody takes it: its thread is the one that waits. */
static bool was_interrupted(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, SIGINT) == 1;
}

static void *watch(void *arg)
{
    const struct timespec nap = {0, LOOK_NS};
    char text[200];
    pid_t pid;
    int n;

    (void)arg;
    for (;;) {
        nanosleep(&nap, NULL);
        if (was_interrupted() && pb_stalls_judge(&stalls, INTERRUPT_NS))
            _exit(EXIT_INTERRUPTED);
        pid = pb_stalls_judge(&stalls, PATIENCE_NS);
        if (!pid)
            continue;
        n = snprintf(text, sizeof text, "probing: %d: its memory does not come: a file system "
                     "hangs, or it holds a page back\n", (int)pid);
        _exit(write(STDERR_FILENO, text, (size_t)n) == n ? PB_TIMEOUT : PB_FAIL);
    }
    return NULL;
}

static void start(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t before;

    pb_signals_block(&before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &attr, watch, NULL);
    pthread_attr_destroy(&attr);
    pb_signals_restore(&before);
}

void pb_patience_start(void)
{
    stalls.first = start;
    pb_stalls_use(&stalls);
}
