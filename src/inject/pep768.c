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
#include "host/buf.h"
#include "inject/arch.h"
#include "inject/internal.h"
#include "inject/script.h"
#include "inject/victim.h"
#include "unwind/hurry.h"
#include "unwind/python/locate.h"
#include "unwind/python/threads.h"
#include "unwind/stop.h"

/* Positions in _Py_DebugOffsets; what describes this way in comes last, one word a field. */
#define COOKIE "xdebugpy"
#define AT_VERSION 8
#define AT_INTERP_SIZE 48
#define AT_THREAD_SIZE 176
enum { AT_EVAL_BREAKER, AT_SUPPORT, AT_ENABLED, AT_PENDING, AT_PATH, AT_PATH_SIZE, FIELDS };

/* Where those last words begin, by the version's number. */
static const struct {
    uint64_t version;
    size_t at;
} described[] = {{0x030e, 712}, {0x030f, 792}};

/* The bit of eval_breaker that makes a thread look at its flag. */
#define PLEASE_LOOK (1u << 5)
#define PATH_LEAST 64
#define TURN_NS 250000000ull /* for one thread, before the next is asked */
#define NAP_US 500

static uint64_t word(const uint8_t *bytes, size_t at)
{
    uint64_t v;

    memcpy(&v, bytes + at, sizeof v);
    return v;
}

static size_t support_at(uint64_t version)
{
    for (size_t i = 0; i < sizeof described / sizeof *described; i++)
        if (described[i].version == version)
            return described[i].at;
    return 0;
}

int pb_pep768_layout(struct pb_pep768_layout *ret, const uint8_t *bytes, size_t len,
                     struct pb_err *err)
{
    struct pb_pep768_layout l;
    uint64_t v[FIELDS], thread, interp;
    size_t at;

    if (len < AT_THREAD_SIZE + 8 || memcmp(bytes, COOKIE, strlen(COOKIE)) != 0)
        return pb_err_set(err, PB_FAIL, "the interpreter does not describe itself");
    at = support_at(word(bytes, AT_VERSION) >> 16);
    if (!at)
        return pb_err_set(err, PB_FAIL,
                          "scripts from outside are known for Python 3.14 and 3.15 only");
    if (len < at + sizeof v)
        return pb_err_set(err, PB_FAIL, "the interpreter does not describe itself");
    memcpy(v, bytes + at, sizeof v);
    thread = word(bytes, AT_THREAD_SIZE);
    interp = word(bytes, AT_INTERP_SIZE);
    l = (struct pb_pep768_layout){
        .eval_breaker = v[AT_EVAL_BREAKER],
        .support = v[AT_SUPPORT],
        .pending = v[AT_PENDING],
        .path = v[AT_PATH],
        .path_size = v[AT_PATH_SIZE],
        .enabled = v[AT_ENABLED],
    };
    if (thread < 8 || thread > 1 << 20 || interp < 4 || interp > 1 << 26 ||
        l.eval_breaker > thread - 8 || l.support > thread || l.pending > thread ||
        l.path > thread || l.path_size > thread || l.path_size < PATH_LEAST ||
        l.support + l.path + l.path_size > thread || l.support + l.pending + 4 > thread ||
        l.enabled > interp - 4)
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
static bool nudge(const struct request *r, uint64_t tstate)
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
           put(r, support + r->layout.pending, &one, sizeof one) && nudge(r, tstate);
}

static void withdraw(const struct request *r, uint64_t tstate)
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
    struct pb_hurry hurry;
    struct pb_victim v;
    struct pb_stop stop;

    /* Whether it could be hijacked does not matter here: it only has to be CPython's call. */
    pb_victim_look(in, tid, &v);
    if (!v.from_python || !pb_arch_may_end(v.wait.nr))
        return;
    pb_hurry_begin(&hurry);
    if (pb_stop_begin(&stop, in->pid, tid, true) != PB_STOP_OK)
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
    pb_hurry_end(&hurry);
}

/* Waits for this thread's answer; false: it did not come by. */
static bool served(struct request *r, const struct pb_py_thread *t)
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
        nudge(r, t->tstate);
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
            if (served(r, t))
                return 0;
            withdraw(r, t->tstate);
        }
    }
    return pb_err_set(err, PB_TIMEOUT, "no thread came by to run the script");
}

static int prepare(struct request *r, struct pb_py_location *loc, struct pb_err *err)
{
    struct pb_injection *in = r->in;
    uint8_t bytes[PB_DEBUG_OFFSETS_MAX];
    uint64_t interp;
    uint32_t enabled;
    pid_t *tids;
    int n;

    if (pb_py_locate(loc, in->pid, &in->maps, &in->mem, &in->arena, err) < 0)
        return -1;
    if (!loc->runtime || !pb_mem_get(&in->mem, loc->runtime, bytes, sizeof bytes))
        return pb_err_set(err, PB_FAIL, "Python %s runs no scripts from outside", loc->version);
    if (pb_pep768_layout(&r->layout, bytes, sizeof bytes, err) < 0)
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
