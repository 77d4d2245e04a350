/*
 * The signal handler: a record, a report, then what would have happened.
 *
 * What would have happened, by the action that was there before us:
 *   default    the action is put back and the same signal, with the same details, queued for this
 *              thread: it is delivered when the handler returns, at the very instruction that
 *              faulted. A second fault is not relied on: memory may have changed meanwhile.
 *   a handler  it is called, with the signal mask that it asked for. What it does with the
 *              action (faulthandler puts back the one before it) stands.
 *   ignored    is left alone, then ours is never installed.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/arch/crash_regs.h"
#include "agent/collectors/collect.h"
#include "agent/collectors/crash/crash.h"
#include "base/clock.h"

#define MS 1000000ull
/* A process that survives its signals (a runtime that uses them) is not held up for ever. */
#define REPORTS_MAX 3
/* The end of one crash: what a handler does afterwards is no crash of its own. */
#define SAME_NS (2000 * MS)
#define OTHER_MS (PB_CRASH_WAIT_MS + 100)

static const int signals[PB_CRASH_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

static int index_of(int signal)
{
    for (int i = 0; i < PB_CRASH_SIGNALS; i++)
        if (signals[i] == signal)
            return i;
    return -1;
}

static void fill(struct pb_crash_state *s, int signal, const siginfo_t *info,
                 const ucontext_t *uc)
{
    struct pb_crash_record *r = &s->record;

    pb_crash_fill(pb_self(), s, PB_CRASH_SIGNAL);
    r->signal = signal;
    r->code = info->si_code;
    if (info->si_code > 0) {
        r->address = (uint64_t)(uintptr_t)info->si_addr;
    } else {
        r->sender_pid = info->si_pid;
        r->sender_uid = (int32_t)info->si_uid;
    }
    r->reg_bytes = pb_crash_regs(uc, r->regs);
    if (s->page && s->page_pid == r->pid)
        memcpy(s->page, r, sizeof *r);
}

/* Another thread was first: the process ends as soon as its report is done. */
static void wait_for_other(struct pb_crash_state *s)
{
    const struct timespec nap = {0, MS};

    for (int i = 0; i < OTHER_MS && s->busy; i++)
        nanosleep(&nap, NULL);
}

static void report(struct pb_crash_state *s, int signal, const siginfo_t *info,
                   const ucontext_t *uc)
{
    int self = (int)syscall(SYS_gettid), none = 0;

    if (!atomic_compare_exchange_strong(&s->busy, &none, self)) {
        if (none != self)
            wait_for_other(s);
        return;
    }
    if (s->reports < REPORTS_MAX && (!s->last_ns || pb_clock_ns() - s->last_ns > SAME_NS)) {
        s->reports++;
        fill(s, signal, info, uc);
        pb_crash_report(s);
        s->last_ns = pb_clock_ns();
    }
    s->busy = 0;
}

static void do_default(int signal, siginfo_t *info)
{
    struct sigaction action = {.sa_handler = SIG_DFL};

    sigaction(signal, &action, NULL);
    syscall(SYS_rt_tgsigqueueinfo, syscall(SYS_getpid), syscall(SYS_gettid), signal, info);
}

static void call_before(const struct sigaction *before, int signal, siginfo_t *info,
                        ucontext_t *uc)
{
    struct sigaction none = {.sa_handler = SIG_DFL};
    sigset_t mask = uc->uc_sigmask;

    for (int i = 1; i < 65; i++)
        if (sigismember(&before->sa_mask, i) == 1)
            sigaddset(&mask, i);
    if (!(before->sa_flags & SA_NODEFER))
        sigaddset(&mask, signal);
    if (before->sa_flags & (int)SA_RESETHAND)
        sigaction(signal, &none, NULL);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(uint64_t));
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(signal, info, uc);
    else
        before->sa_handler(signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int saved = errno, i = index_of(signal);
    struct pb_self *self = pb_self();
    struct pb_crash_state *s = self ? pb_crash_state(self) : NULL;
    const struct sigaction *before;

    if (!s || i < 0) {
        do_default(signal, info);
        return;
    }
    if (s->armed)
        report(s, signal, info, context);
    before = &s->before[i];
    if (!(before->sa_flags & SA_SIGINFO) && before->sa_handler == SIG_DFL)
        do_default(signal, info);
    else
        call_before(before, signal, info, context);
    errno = saved;
}

void pb_crash_arm(struct pb_crash_state *s)
{
    struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;

    sigfillset(&ours.sa_mask);
    for (int i = 0; i < PB_CRASH_SIGNALS; i++)
        sigdelset(&ours.sa_mask, signals[i]);
    for (int i = 0; i < PB_CRASH_SIGNALS; i++) {
        if (sigaction(signals[i], NULL, &old) < 0)
            continue;
        if (old.sa_flags & SA_SIGINFO ? old.sa_sigaction == on_signal : old.sa_handler == SIG_IGN)
            continue;
        s->before[i] = old;
        s->ours[i] = sigaction(signals[i], &ours, NULL) == 0;
    }
    s->armed = true;
}

void pb_crash_disarm(struct pb_crash_state *s)
{
    struct sigaction now;

    s->armed = false;
    for (int i = 0; i < PB_CRASH_SIGNALS; i++) {
        if (s->ours[i] && sigaction(signals[i], NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
            now.sa_sigaction == on_signal)
            sigaction(signals[i], &s->before[i], NULL);
        /* A handler that came later may still call ours: what was before stays known. */
        s->ours[i] = false;
    }
}
