/*
 * What a thread waits for: by its Python frames where the standard library or torch says what it
 * does, else by the system call.
 */
#include <sys/syscall.h>

#include "host/process/proc.h"
#include "node/waits/internal.h"

const char *pb_wait_name(enum pb_wait_kind kind)
{
    static const char *const names[] = {
#define X(name, word) [PB_WAIT_##name] = word,
        PB_WAIT_KINDS(X)
#undef X
    };

    return names[kind];
}

const char *pb_phase_name(enum pb_phase phase)
{
    static const char *const names[] = {
#define X(name, word) [PB_PHASE_##name] = word,
        PB_PHASES_OF(X)
#undef X
    };

    return names[phase];
}

/* What is known of a thread in the kernel although it makes no system call. */
static void outside_calls(struct pb_wait *w)
{
    struct pb_proc_stat st;
    struct pb_err ignored = {0};

    w->kind = PB_WAIT_RUNNING;
    if (pb_proc_stat(&st, w->process->pid, w->thread->tid, &ignored) == 0 && st.state == 'D') {
        w->kind = w->thread->blocked.nr < 0 ? PB_WAIT_PAGE_FAULT : PB_WAIT_DISK;
        w->what = w->thread->wait ? w->thread->wait : "the kernel";
    }
}

static void find_stop(struct pb_wait *w)
{
    struct pb_proc_stat st;
    struct pb_proc_status status;
    struct pb_err ignored = {0};

    w->kind = PB_WAIT_STOPPED;
    w->what = "a SIGCONT";
    if (pb_proc_stat(&st, w->process->pid, w->thread->tid, &ignored) == 0 && st.state == 't' &&
        pb_proc_status(&status, w->process->pid, &ignored) == 0 && status.tracer > 0) {
        w->kind = PB_WAIT_DEBUGGER;
        w->what = "a debugger that holds it";
        pb_wait_add_peer(w, status.tracer, 0);
    }
}

void pb_wait_classify(struct pb_wait_look *l, struct pb_wait *w)
{
    const struct pb_thread *t = w->thread;

    w->left_ms = -1;
    w->cpu_pct = -1;
    pb_wait_find_frames(w);
    if (t->state == PB_STOPPED)
        find_stop(w);
    else if (t->waits_gil)
        pb_wait_for_gil(w);
    else if (!t->blocked.blocked || t->blocked.nr < 0)
        outside_calls(w);
    else
        pb_wait_by_call(l, w);
    if (t->blocked.blocked && pb_wait_is_watcher(w)) {
        w->kind = PB_WAIT_OTHER;
        w->what = "time for a library to look again";
        w->timed = false;
        w->npeers = 0;
        return;
    }
    /* Above the system call stands what it is for. */
    if (t->blocked.blocked && t->blocked.nr != SYS_futex && t->state != PB_STOPPED) {
        struct pb_wait by = *w;

        if ((pb_wait_by_frames(&by) &&
             (by.kind == PB_WAIT_DEBUGGER || by.kind == PB_WAIT_COLLECTIVE)) ||
            (pb_wait_by_native(&by) && by.kind != PB_WAIT_GPU)) {
            w->kind = by.kind;
            w->what = by.what;
            w->npeers = by.npeers;
            w->outside = by.outside;
        } else if (w->kind == PB_WAIT_POLL && pb_wait_in_asyncio(w)) {
            w->kind = PB_WAIT_AWAIT;
            pb_wait_find_await(l, w);
        }
    } else if (w->kind == PB_WAIT_RUNNING) {
        struct pb_wait by = *w;

        if (pb_wait_by_frames(&by) && by.kind == PB_WAIT_COLLECTIVE) {
            w->kind = by.kind;
            w->what = by.what;
        }
    }
}
