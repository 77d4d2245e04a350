/* Starting the reader and waiting for its word. Everything here is async-signal-safe. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/arch/symver.h"
#include "agent/collectors/collect.h"
#include "agent/collectors/crash/crash.h"
#include "base/clock.h"
#include "store/format.h"

#define MS 1000000u
/* Descriptors that are closed one by one where the kernel cannot close a range. */
#define CLOSE_MAX 4096
#define REAP_TRIES 20
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static void put_text(char **at, const char *s)
{
    while (*s)
        *(*at)++ = *s++;
}

static void put_number(char **at, uint64_t v, unsigned base)
{
    char digits[24];
    int n = 0;

    do {
        digits[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v);
    while (n)
        *(*at)++ = digits[--n];
}

/* "PID:ADDRESS" of the record. */
static void write_argument(struct pb_crash_state *s)
{
    char *at = s->argument;

    put_number(&at, (uint64_t)s->record.pid, 10);
    put_text(&at, ":0x");
    put_number(&at, (uint64_t)(uintptr_t)&s->record, 16);
    *at = '\0';
}

/* Nothing of the program's stays open: whoever reads a pipe of its must see it end. */
static void close_others(void)
{
    if (syscall(SYS_close_range, PB_CRASH_ACK_FD + 1, ~0u, 0) == 0)
        return;
    for (int fd = PB_CRASH_ACK_FD + 1; fd < CLOSE_MAX; fd++)
        close(fd);
}

/* Runs in a process of its own that shares our memory until execve. */
static int become_reader(void *arg)
{
    struct pb_crash_state *s = arg;
    char *argv[] = {s->tool, (char *)"crashes", (char *)"--take", s->argument, NULL};
    char *envp[] = {s->data[0] ? s->data : NULL, NULL};
    int none;

    syscall(SYS_setsid);
    if (s->ack[1] == PB_CRASH_ACK_FD)
        fcntl(PB_CRASH_ACK_FD, F_SETFD, 0);
    else if (dup2(s->ack[1], PB_CRASH_ACK_FD) < 0)
        goto end;
    none = open("/dev/null", O_RDWR);
    for (int fd = 0; none >= 0 && fd < 3; fd++)
        dup2(none, fd);
    close_others();
    execve(s->tool, argv, envp);
end:
    syscall(SYS_exit, 127);
    return 127;
}

/* A process that no wait() of the program's finds, and whose end sends it no signal. */
static pid_t start_reader(struct pb_crash_state *s)
{
    char *top = s->child_stack + sizeof s->child_stack;

    if (s->child_tid)
        return -1; /* an earlier one still stands on that stack */
    s->child_tid = 1;
    return clone(become_reader, top, CLONE_VM | CLONE_CHILD_CLEARTID, s, NULL, NULL,
                 (void *)&s->child_tid);
}

/* True when the reader says that it has what it needs. */
static bool wait_for_word(int fd)
{
    uint64_t end = pb_clock_ns() + (uint64_t)PB_CRASH_WAIT_MS * MS;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char word = 0;

    for (;;) {
        int64_t left = (int64_t)(end - pb_clock_ns());
        struct timespec t = {left / 1000000000, left % 1000000000};

        if (left <= 0)
            return false;
        if (syscall(SYS_ppoll, &p, 1, &t, NULL, 0) > 0)
            return read(fd, &word, 1) == 1;
        if (errno != EINTR)
            return false;
    }
}

static void reap(pid_t child)
{
    const struct timespec nap = {0, MS};

    for (int i = 0; i < REAP_TRIES; i++) {
        if (waitpid(child, NULL, __WCLONE | WNOHANG) != 0)
            return;
        nanosleep(&nap, NULL);
    }
}

static bool report(struct pb_crash_state *s)
{
    bool done = false;
    pid_t child;

    if (syscall(SYS_pipe2, s->ack, O_CLOEXEC) < 0)
        return false;
    write_argument(s);
    child = start_reader(s);
    if (child <= 0)
        s->child_tid = 0;
    else
        prctl(PR_SET_PTRACER, (unsigned long)child, 0, 0, 0); /* for Yama; else refused */
    close(s->ack[1]);
    if (child > 0)
        done = wait_for_word(s->ack[0]);
    close(s->ack[0]);
    if (done)
        reap(child);
    return done;
}

bool pb_crash_report(struct pb_crash_state *s)
{
    uint64_t all = ~(uint64_t)0, old = 0;
    bool done;

    if (!s->tool[0])
        return false;
    /* The new process has our memory for a moment: no handler of the program's runs in it. */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof all);
    done = report(s);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
    return done;
}

static void fill_progress(const struct pb_progress_state *p, struct pb_crash_record *r)
{
    const struct pb_progress_page *page = p->page;

    r->step = r->epoch = r->collective_seq = PB_NULL_INT;
    if (!page)
        return;
    r->step = page->head.step;
    r->epoch = page->head.epoch;
    for (int i = 0; i < PB_PROGRESS_THREADS; i++) {
        const struct pb_progress_thread *t = &page->threads[i];

        if (p->tids[i] != r->tid)
            continue;
        r->phase = t->phase;
        r->module = t->module;
        r->collective = t->collective;
        r->group = t->group;
        r->collective_seq = t->collective_seq;
        if (t->step != PB_NULL_INT)
            r->step = t->step;
    }
}

void pb_crash_fill(struct pb_self *self, struct pb_crash_state *s, enum pb_crash_kind kind)
{
    struct pb_crash_record *r = &s->record;

    memset(r, 0, sizeof *r);
    r->version = PB_CRASH_VERSION;
    r->kind = kind;
    r->pid = (int32_t)syscall(SYS_getpid);
    r->tid = (int32_t)syscall(SYS_gettid);
    r->wall_ns = pb_clock_wall_ns();
    r->mono_ns = pb_clock_ns();
    fill_progress(&self->collect->progress, r);
    memcpy(r->magic, PB_CRASH_MAGIC, sizeof r->magic);
}
