#include "inject/pep768.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/buf.h"
#include "inject/arch.h"
#include "inject/internal.h"
#include "inject/script.h"
#include "inject/victim.h"
#include "stack/python/locate.h"
#include "stack/python/threads.h"

/* The bit of eval_breaker that makes a thread look at its flag. */
#define PLEASE_LOOK (1u << 5)
#define PATH_MIN 64
#define TURN_NS 250000000ull /* for one thread, before the next is asked */
#define NAP_US 500

int pb_pep768_layout(struct pb_pep768_layout *ret, const struct pb_py_layout *py,
                     struct pb_err *err)
{
    uint64_t thread, interp;
    struct pb_pep768_layout l = {
        .eval_breaker = (uint64_t)py->dbg_eval_breaker,
        .support = (uint64_t)py->dbg_support,
        .pending = (uint64_t)py->dbg_pending,
        .path = (uint64_t)py->dbg_path,
        .path_size = (uint64_t)py->dbg_path_size,
        .enabled = (uint64_t)py->dbg_enabled,
    };

    if (py->dbg_eval_breaker == PB_NONE)
        return pb_err_set(err, PB_FAIL, "Python %d.%d runs no scripts from outside", py->major,
                          py->minor);
    thread = (uint64_t)py->ts_size;
    interp = (uint64_t)py->interp_size;
    if (thread < 8 || thread > 1 << 20 || interp < 4 || l.eval_breaker > thread - 8 ||
        l.path_size < PATH_MIN || l.support + l.path + l.path_size > thread ||
        l.support + l.pending + 4 > thread || l.enabled > interp - 4)
        return pb_err_set(err, PB_FAIL, "the interpreter describes itself in a way that "
                          "makes no sense");
    *ret = l;
    return 0;
}

/* One request on its way. */
struct request {
    struct pb_injection *in;
    struct pb_pep768_layout layout;
    struct pb_script script;
    struct pb_py_threads threads;
};

/* Into the memory that was opened at the start: never that of a program started since. */
static bool put(const struct request *r, uint64_t addr, const void *data, size_t len)
{
    return pwrite(r->in->fd, data, len, (off_t)addr) == (ssize_t)len;
}

/*
 * Sets the bit that makes the thread look. Reading and writing are two steps:
 * a bit that the interpreter sets in between would be lost, so the word is
 * written only while it stays the same, and looked at again.
 */
static bool set_pending_bit(const struct request *r, uint64_t tstate)
{
    uint64_t at = tstate + r->layout.eval_breaker, bits;

    if (!pb_mem_u64(&r->in->mem, at, &bits))
        return false;
    if (bits & PLEASE_LOOK)
        return true;
    bits |= PLEASE_LOOK;
    return put(r, at, &bits, sizeof bits);
}

static bool ask(const struct request *r, uint64_t tstate)
{
    uint64_t support = tstate + r->layout.support;
    uint32_t one = 1;

    return put(r, support + r->layout.path, r->script.path, strlen(r->script.path) + 1) &&
           put(r, support + r->layout.pending, &one, sizeof one) && set_pending_bit(r, tstate);
}

static void cancel_request(const struct request *r, uint64_t tstate)
{
    uint32_t none = 0;

    put(r, tstate + r->layout.support + r->layout.pending, &none, sizeof none);
}

/* Ends the system call that the thread sleeps in, if CPython's own code made it. */
static void wake(const struct request *r, pid_t tid)
{
    struct pb_injection *in = r->in;
    struct pb_arch_regs regs;
    struct pb_arch_view view;
    struct pb_victim v;
    struct pb_stop stop;

    /* Whether it could be hijacked does not matter here: it only has to be CPython's call. */
    pb_victim_look(in, tid, &v);
    if (!v.from_python || !pb_arch_may_end(v.wait.nr))
        return;
    pb_priority_raise(&in->tracer.priority);
    if (pb_stop_begin(&stop, &in->tracer, in->pid, tid, true) != PB_STOP_OK)
        goto end;
    regs.size = pb_stop_registers(&stop, regs.raw, sizeof regs.raw);
    if (!stop.signal && pb_arch_view(&regs, &v.wait, &view) && view.in_call &&
        view.sp == v.wait.sp) {
        struct iovec iov = {regs.raw, regs.size};

        pb_arch_end_call(&regs, &v.wait);
        ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &iov);
    }
    in->report->pause_us = pb_stop_end(&stop);
    in->report->tid = tid;
end:
    pb_priority_restore(&in->tracer.priority);
}

/* Waits for this thread's answer; false: it did not come by. */
static bool await_answer(struct request *r, const struct pb_py_thread *t)
{
    uint64_t until = pb_clock_ns() + TURN_NS;
    struct pb_proc_wait w;

    pb_proc_wait(&w, r->in->pid, t->tid);
    if (t->tid && w.blocked)
        wake(r, t->tid);
    while (!pb_injection_expired(r->in)) {
        if (pb_script_answer(&r->script))
            return true;
        if (pb_clock_ns() > until && !pb_script_begun(&r->script))
            return false;
        set_pending_bit(r, t->tstate);
        usleep(NAP_US);
    }
    return false;
}

static int ask_in_turn(struct request *r, struct pb_err *err)
{
    for (int asleep = 0; asleep < 2; asleep++) {
        for (size_t i = 0; i < r->threads.n && !pb_injection_expired(r->in); i++) {
            const struct pb_py_thread *t = &r->threads.v[i];
            struct pb_proc_wait w;

            pb_proc_wait(&w, r->in->pid, t->tid);
            if (w.blocked != (asleep == 1))
                continue;
            r->in->report->attempts++;
            if (!ask(r, t->tstate))
                continue;
            r->in->report->tid = t->tid;
            if (await_answer(r, t))
                return 0;
            cancel_request(r, t->tstate);
        }
    }
    return pb_err_set(err, PB_TIMEOUT, "no thread came by to run the script");
}

static int prepare(struct request *r, struct pb_py_location *loc, struct pb_err *err)
{
    struct pb_injection *in = r->in;
    uint64_t interp;
    uint32_t enabled;
    pid_t *tids;
    int n;

    if (pb_py_locate(loc, in->pid, &in->maps, &in->mem, &in->arena, err) < 0)
        return -1;
    if (pb_pep768_layout(&r->layout, &loc->layout, err) < 0)
        return -1;
    if (!pb_mem_u64(&in->mem, loc->interp_head, &interp) ||
        !pb_mem_u32(&in->mem, interp + r->layout.enabled, &enabled))
        return pb_err_set(err, PB_FAIL, "the interpreter cannot be read");
    if (!enabled)
        return pb_err_set(err, PB_FAIL, "remote debugging is switched off in this interpreter");
    n = pb_proc_threads(in->pid, &in->arena, &tids, err);
    if (n < 0)
        return -1;
    pb_py_threads_read(loc, &in->mem, in->pid, tids, (size_t)n, &in->arena, &r->threads);
    return 0;
}

int pb_pep768(struct pb_injection *in, struct pb_err *err)
{
    struct request r = {.in = in};
    struct pb_py_location loc;
    int rc;

    if (prepare(&r, &loc, err) < 0)
        return -1;
    if (pb_script_create(&r.script, in, r.layout.path_size, err) < 0)
        return -1;
    rc = ask_in_turn(&r, err);
    if (rc == 0)
        rc = pb_script_result(&r.script, &in->report->result, err);
    if (rc == 0)
        in->report->way = "PEP 768: the interpreter ran a script";
    pb_script_destroy(&r.script);
    return rc;
}
