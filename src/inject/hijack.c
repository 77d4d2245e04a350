#include "inject/hijack.h"

#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/arch.h"
#include "inject/victim.h"

/* Running threads that are tried in one round, so that none is stopped too often. */
#define RUNNING_PER_ROUND 4
/* Rounds after which what is known of the address space is read again. */
#define REFRESH_ROUNDS 16
/* struct timespec and struct timeval */
#define TIME_SIZE 16
#define NAP_MIN_US 200
#define NAP_MAX_US 20000

/* PTRACE_GET_RSEQ_CONFIGURATION, which older headers do not have. */
#define GET_RSEQ_CONFIGURATION 0x420f

struct rseq_configuration {
    uint64_t address;
    uint32_t size, signature, flags, pad;
};

/*
 * A restartable sequence that is left in the middle would go on as if nothing
 * had been: the kernel forgets it when the thread returns somewhere else.
 */
static bool in_restartable_sequence(struct pb_injection *in, pid_t tid, uint64_t pc)
{
    struct rseq_configuration conf = {0};
    struct {
        uint32_t version, flags;
        uint64_t start, length, abort;
    } cs;
    uint64_t at;
    void *size = (void *)sizeof conf;

    if (ptrace(GET_RSEQ_CONFIGURATION, tid, size, &conf) < 0 || !conf.address)
        return false;
    if (!pb_mem_u64(&in->mem, conf.address + 8, &at))
        return true;
    if (!at)
        return false;
    return !pb_mem_get(&in->mem, at, &cs, sizeof cs) || pc - cs.start < cs.length;
}

static bool set_registers(pid_t tid, struct pb_arch_regs *regs)
{
    struct iovec iov = {regs->raw, regs->size};

    return ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &iov) == 0;
}

/*
 * Where a system call that is cut short puts the time that was left, 0 for
 * nowhere. These bytes may change without the thread having moved.
 */
static uint64_t time_left_at(const struct pb_proc_wait *wait)
{
    switch (wait->nr) {
#ifdef SYS_select /* calls that newer architectures do without */
    case SYS_select:
#endif
    case SYS_pselect6:
        return wait->args[4];
    case SYS_ppoll:
        return wait->args[2];
    case SYS_nanosleep:
        return wait->args[1];
    case SYS_clock_nanosleep:
        return wait->args[3];
    }
    return 0;
}

/* Two copies of one stack, alike but for the 16 bytes of such a time. */
static bool same_stack(const struct pb_stack_copy *x, const struct pb_stack_copy *y,
                       uint64_t time_left)
{
    size_t at = time_left - x->base, len = x->len;

    if (x->base != y->base || len != y->len)
        return false;
    if (time_left < x->base || at >= len || len - at < TIME_SIZE)
        return memcmp(x->bytes, y->bytes, len) == 0;
    return memcmp(x->bytes, y->bytes, at) == 0 &&
           memcmp(x->bytes + at + TIME_SIZE, y->bytes + at + TIME_SIZE, len - at - TIME_SIZE) == 0;
}

/* Still where it was when it was proven safe? What sleeps does not move. */
static bool unmoved(struct pb_injection *in, const struct pb_victim *v,
                    const struct pb_arch_view *view)
{
    struct pb_stack_copy now;

    return (view->in_call || v->eintr) && view->sp == v->wait.sp && view->pc == v->wait.pc &&
           (view->nr < 0 || view->nr == v->wait.nr) && pb_victim_copy(in, view->sp, true, &now) &&
           same_stack(&now, &v->stack, time_left_at(&v->wait));
}

/* The last look, at the held thread. NULL: it may be sent through the stub. */
static const char *check_held_thread(struct pb_injection *in, const struct pb_victim *v,
                                     const struct pb_arch_regs *regs)
{
    struct pb_stack_copy stack;
    struct pb_arch_view view;
    struct pb_regs unwound;

    if (!pb_arch_view(regs, v->blocked ? &v->wait : NULL, &view) ||
        !pb_regs_from_prstatus(&unwound, regs->raw, regs->size))
        return "its registers cannot be read";
    if (v->blocked && !unmoved(in, v, &view))
        return "it woke up";
    if (!v->blocked || v->unsure) {
        const char *why;

        if (!pb_victim_copy(in, view.sp, true, &stack))
            return "its stack cannot be read";
        why = pb_victim_judge(in, &unwound, &stack, v->blocked, NULL);
        if (why)
            return why;
    }
    if (in_restartable_sequence(in, v->tid, view.pc))
        return "it is inside a restartable sequence";
    return pb_arch_refuse_thread(v->tid, regs, &in->mem);
}

/* process_vm_writev and not /proc/PID/mem: it respects guard pages. */
static bool write_frame(pid_t pid, struct pb_arch_frame *f)
{
    struct iovec local = {f->bytes, f->size}, remote = {(void *)(uintptr_t)f->addr, f->size};

    return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)f->size;
}

/*
 * The order matters: the tool may be killed between any two lines. Until the
 * registers are set nothing has changed for the victim; from then on the stub
 * takes care of everything, the signal mask included.
 */
static const char *start_stub(struct pb_injection *in, pid_t tid, struct pb_arch_regs *regs)
{
    struct pb_arch_frame frame;
    uint64_t mask, blocked, back;

    if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof mask, &mask) < 0)
        return "its signal mask cannot be read";
    if (!pb_arch_return_jump(in->fd, &in->mem, regs, in->code, in->room_end, &back))
        return "its code is too far from ours";
    pb_arch_build(regs, &in->block, mask, in->code, back, &frame);
    if (!write_frame(in->pid, &frame))
        return "there is no room on its stack";
    pb_injection_step(in, PB_STEP_FRAME);
    if (!set_registers(tid, regs))
        return "its registers cannot be set";
    pb_injection_step(in, PB_STEP_REGISTERS);
    blocked = mask | in->block.blocked;
    ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof blocked, &blocked);
    pb_injection_step(in, PB_STEP_MASK);
    return NULL;
}

static const char *stop_reason(enum pb_stop_result rc)
{
    switch (rc) {
    case PB_STOP_BLOCKED:
        return "it went to sleep";
    case PB_STOP_GONE:
        return "it ended";
    case PB_STOP_DENIED:
        return "it may not be traced, or is traced by another";
    default:
        return "it did not stop";
    }
}

static const char *hold_and_send(struct pb_injection *in, const struct pb_victim *v)
{
    struct pb_arch_regs regs = {.size = 0};
    struct pb_stop stop;
    enum pb_stop_result rc = pb_stop_begin(&stop, &in->tracer, in->pid, v->tid, v->blocked);
    const char *why;
    double pause;

    if (rc != PB_STOP_OK)
        return stop_reason(rc);
    pb_injection_step(in, PB_STEP_HELD);
    regs.size = pb_stop_registers(&stop, regs.raw, sizeof regs.raw);
    if (pb_arch_restart_read(&regs))
        set_registers(v->tid, &regs);
    /* A signal on its way would find its thread elsewhere: let it through first. */
    why = stop.signal ? "a signal came" : check_held_thread(in, v, &regs);
    if (!why && v->eintr)
        pb_arch_end_call(&regs, &v->wait);
    if (!why)
        why = start_stub(in, v->tid, &regs);
    pause = pb_stop_end(&stop);
    if (why)
        return why;
    in->report->tid = v->tid;
    in->report->pause_us = pause;
    in->report->way = v->way;
    return NULL;
}

/*
 * A running thread is checked once after it was released, so that unwind tables and
 * symbols are at hand when it is checked while it is held: that takes a fifth of the time then.
 */
static void warm_caches(struct pb_injection *in, const struct pb_victim *v)
{
    struct pb_arch_regs regs = {.size = 0};
    struct pb_stack_copy stack;
    struct pb_regs unwound;
    struct pb_arch_view view;
    struct pb_stop stop;
    bool read = false;

    pb_priority_raise(&in->tracer.priority);
    if (pb_stop_begin(&stop, &in->tracer, in->pid, v->tid, false) == PB_STOP_OK) {
        regs.size = pb_stop_registers(&stop, regs.raw, sizeof regs.raw);
        read = pb_arch_view(&regs, NULL, &view) &&
               pb_regs_from_prstatus(&unwound, regs.raw, regs.size) &&
               pb_victim_copy(in, view.sp, true, &stack);
        pb_stop_end(&stop);
    }
    pb_priority_restore(&in->tracer.priority);
    if (read)
        pb_victim_judge(in, &unwound, &stack, false, NULL);
}

/* NULL: the victim is on its way through the stub. Else it goes on as before. */
static const char *try_victim(struct pb_injection *in, const struct pb_victim *v)
{
    const char *why;

    in->report->attempts++;
    pb_priority_raise(&in->tracer.priority);
    why = hold_and_send(in, v);
    pb_priority_restore(&in->tracer.priority);
    if (!why)
        pb_injection_step(in, PB_STEP_RELEASED);
    return why;
}

/* Main thread last: signals for the process go to it first. */
static size_t in_order(const pid_t *tids, int n, pid_t pid, pid_t *ret)
{
    size_t count = 0;

    for (int i = 0; i < n; i++)
        if (tids[i] != pid)
            ret[count++] = tids[i];
    for (int i = 0; i < n; i++)
        if (tids[i] == pid)
            ret[count++] = tids[i];
    return count;
}

/* One round over all threads: those asleep first, then some that run. */
static bool one_round(struct pb_injection *in, unsigned round, const char **why)
{
    struct pb_err ignored = {0};
    struct pb_victim late = {0}; /* one whose system call would be cut short: only if need be */
    pid_t *tids, *order, *running;
    size_t n, nrunning = 0;
    int count = pb_proc_threads(in->pid, &in->arena, &tids, &ignored);

    if (count <= 0)
        return false;
    pb_stop_release_abandoned(&in->tracer);
    order = PB_NEW_N(&in->arena, pid_t, (size_t)count);
    running = PB_NEW_N(&in->arena, pid_t, (size_t)count);
    n = in_order(tids, count, in->pid, order);
    for (size_t i = 0; i < n && !pb_injection_expired(in); i++) {
        struct pb_victim v;
        const char *no = pb_victim_look(in, order[i], &v);

        if (!no && v.eintr) {
            late = v;
            continue;
        }
        if (!no)
            no = try_victim(in, &v);
        if (!no)
            return true;
        if (!v.blocked)
            running[nrunning++] = order[i];
        else
            *why = no;
    }
    if (late.tid && nrunning == 0) {
        *why = try_victim(in, &late);
        if (!*why)
            return true;
    }
    for (size_t i = 0; i < nrunning && i < RUNNING_PER_ROUND && !pb_injection_expired(in); i++) {
        struct pb_victim v = {.tid = running[(round + i) % nrunning],
                              .way = "hijacked a running thread"};
        const char *no;

        if (round % REFRESH_ROUNDS == 0)
            warm_caches(in, &v);
        no = try_victim(in, &v);

        if (!no)
            return true;
        *why = no;
    }
    return false;
}

static int refresh(struct pb_injection *in, struct pb_err *err)
{
    pb_native_destroy(in->native);
    in->native = NULL;
    pb_maps_finish(&in->maps);
    if (pb_maps_read(&in->maps, in->pid, err) < 0)
        return -1;
    return pb_native_create(&in->native, in->pid, &in->maps, &in->mem, err);
}

int pb_hijack(struct pb_injection *in, struct pb_err *err)
{
    const char *why = "no thread could be looked at";
    useconds_t nap = NAP_MIN_US;

    for (unsigned round = 0; !pb_injection_expired(in); round++) {
        if (one_round(in, round, &why))
            return 0;
        if (pb_injection_ended(in))
            return pb_err_set(err, PB_NO_TARGET, "it ended meanwhile");
        if (round % REFRESH_ROUNDS == REFRESH_ROUNDS - 1 && refresh(in, err) < 0)
            return -1;
        usleep(nap);
        if (nap < NAP_MAX_US)
            nap += nap / 16;
    }
    return pb_err_set(err, PB_TIMEOUT,
                      "no safe moment in %.3g s: no thread could be borrowed; the last one: %s",
                      in->o->timeout_ms / 1000.0, why);
}
