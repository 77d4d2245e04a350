/*
 * Who waits for whom: edges between the threads of one look, and where following them ends.
 *
 * A wait may have several peers of which one is enough (a pipe with several writers). The chain
 * goes on with one that does not wait for the asking process itself: an idle worker waits for its
 * parent, the one that matters does not.
 */
#include <stdlib.h>

#include "node/waits/internal.h"

#define CHAIN_MAX 64

static int by_thread(const void *x, const void *y)
{
    const struct pb_wait *a = x, *b = y;

    if (a->process->pid != b->process->pid)
        return a->process->pid < b->process->pid ? -1 : 1;
    return (a->thread->tid > b->thread->tid) - (a->thread->tid < b->thread->tid);
}

static struct pb_wait *find(struct pb_wait *v, size_t n, pid_t pid, pid_t tid)
{
    size_t low = 0, high = n;

    tid = tid ? tid : pid; /* the main thread stands for the process */
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct pb_wait *w = &v[mid];

        if (w->process->pid < pid || (w->process->pid == pid && w->thread->tid < tid))
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && v[low].process->pid == pid && v[low].thread->tid == tid ? &v[low] : NULL;
}

static bool waits_for(const struct pb_wait *w, pid_t pid)
{
    for (size_t i = 0; i < w->npeers; i++)
        if (w->peers[i].pid == pid)
            return true;
    return false;
}

/* A worker without work: its library waits for some; the program's frames below are the fork's. */
static bool is_idle_worker(const struct pb_wait *w)
{
    static const char *const loops[] = {"/multiprocessing/process.py", "/multiprocessing/pool.py",
                                        "/concurrent/futures/process.py",
                                        "/torch/utils/data/_utils/worker.py"};

    for (size_t i = 0; i < w->thread->nframes; i++) {
        const struct pb_frame *f = &w->thread->frames[i];

        if (f == w->user)
            return false;
        for (size_t k = 0; f->file && !f->native && k < sizeof loops / sizeof *loops; k++)
            if (strstr(f->file, loops[k]))
                return true;
    }
    return false;
}

/* How much a peer looks like the one to wait for; more is worse off. */
static int rate(const struct pb_wait *w, const struct pb_wait *peer)
{
    if (!peer)
        return 2; /* no Python, or not to be read */
    if (peer == w)
        return 5;
    if (peer->process->pid != w->process->pid && waits_for(peer, w->process->pid))
        return is_idle_worker(peer) ? 0 : 1;
    return peer->kind == PB_WAIT_STOPPED || peer->kind == PB_WAIT_DEBUGGER ? 4 : 3;
}

/* Something inside the process that any of its threads may give. */
static bool is_inside(const struct pb_wait *w)
{
    return w->kind == PB_WAIT_EVENT || w->kind == PB_WAIT_QUEUE || w->kind == PB_WAIT_FUTURE ||
           w->kind == PB_WAIT_LOCK || w->alone;
}

/* Has this thread work of its own, or does it pass on what another process sends? */
static int rate_helper(const struct pb_wait *w)
{
    if (w->kind == PB_WAIT_RUNNING || w->kind == PB_WAIT_GIL)
        return 6;
    if (w->on_pid && w->on_pid != w->process->pid)
        return w->kind == PB_WAIT_PIPE && w->npeers > 1 ? 5 : 4;
    if (w->user && !is_inside(w) && w->kind != PB_WAIT_THREAD && !w->idles)
        return 3;
    return 0;
}

/*
 * The thread of a process that an answer of it hangs on: its main thread, unless that only waits
 * for clients, and another one is at work or stuck.
 */
static const struct pb_wait *find_answerer(struct pb_wait *v, size_t n, struct pb_wait *first)
{
    const struct pb_wait *best = first;
    int most = 0;

    if (!first || !first->outside)
        return first;
    for (size_t i = 0; i < n; i++) {
        int r = v[i].process != first->process || v[i].thread->is_main ? 0 : rate_helper(&v[i]);

        if (!r && v[i].process == first->process && !v[i].thread->is_main && v[i].user &&
            is_inside(&v[i]))
            r = v[i].kind == PB_WAIT_LOCK ? 2 : 1;
        if (r > most) {
            most = r;
            best = &v[i];
        }
    }
    return best;
}

static void choose(struct pb_wait *v, size_t n, struct pb_wait *w)
{
    int best = -1;

    for (size_t i = 0; i < w->npeers; i++) {
        struct pb_wait *first = find(v, n, w->peers[i].pid, w->peers[i].tid);
        const struct pb_wait *peer = w->peers[i].tid ? first : find_answerer(v, n, first);
        int r;

        /* Its own copy of a descriptor's other end, as a fork leaves it, is nobody to wait for. */
        if (w->peers[i].pid == w->process->pid && !w->peers[i].tid)
            continue;
        r = rate(w, peer);
        if (r <= best)
            continue;
        best = r;
        w->on_pid = w->peers[i].pid;
        w->on_tid = peer ? peer->thread->tid : w->peers[i].tid;
    }
}

/*
 * Nobody knows who sets an event or fills a queue; if one thread of the process is at work, or
 * listens to another process, it is taken for that one.
 */
static void infer(struct pb_wait *v, size_t n, struct pb_wait *w)
{
    int best = 0;

    for (size_t i = 0; i < n; i++) {
        int r;

        if (v[i].process != w->process || &v[i] == w || v[i].inferred ||
            (v[i].thread->is_main && v[i].on_tid == w->thread->tid))
            continue;
        r = rate_helper(&v[i]);
        if (r > best) {
            best = r;
            w->on_pid = v[i].process->pid;
            w->on_tid = v[i].thread->tid;
            w->inferred = true;
        }
    }
}

/* Where others may end the wait as well, the chain ends. */
static struct pb_wait *next(struct pb_wait *v, size_t n, const struct pb_wait *w)
{
    return w->on_pid && !w->outside ? find(v, n, w->on_pid, w->on_tid) : NULL;
}

static void follow(struct pb_wait *v, size_t n, struct pb_wait *w)
{
    struct pb_wait *at = w;
    pid_t first = w->thread->tid;

    w->root = w;
    for (int i = 0; i < CHAIN_MAX; i++) {
        struct pb_wait *to = next(v, n, at);

        if (to == w)
            w->circle = first;
        if (!to || to == w || i == CHAIN_MAX - 1)
            break;
        at = to;
        first = at->thread->tid < first ? at->thread->tid : first;
    }
    w->root = at;
}

void pb_wait_graph(struct pb_wait *v, size_t n)
{
    qsort(v, n, sizeof *v, by_thread);
    for (size_t i = 0; i < n; i++)
        choose(v, n, &v[i]);
    for (size_t i = 0; i < n; i++)
        if (!v[i].on_pid && is_inside(&v[i]))
            infer(v, n, &v[i]);
    for (size_t i = 0; i < n; i++)
        follow(v, n, &v[i]);
}
