#include "node/sample/tasks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "node/sample/procfile.h"

/* A process with more is looked at in part. */
#define THREADS_MAX 4096

void pb_tasks_finish(struct pb_tasks *t)
{
    free(t->v);
    *t = (struct pb_tasks){0};
}

/* Both lists are sorted; what is known of a thread moves over. */
static void list(struct pb_tasks *t, pid_t pid)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    struct pb_sampled_thread *v = NULL;
    size_t old = 0;
    pid_t *tids;
    int n = pb_proc_threads(pid, &scratch, &tids, NULL);

    n = n > THREADS_MAX ? THREADS_MAX : n;
    if (n > 0)
        v = pb_alloc_resize(NULL, (size_t)n * sizeof *v);
    for (int i = 0; i < n; i++) {
        while (old < t->n && t->v[old].tid < tids[i])
            old++;
        if (old < t->n && t->v[old].tid == tids[i])
            v[i] = t->v[old];
        else
            v[i] = (struct pb_sampled_thread){.tid = tids[i], .fresh = true};
    }
    pb_arena_finish(&scratch);
    free(t->v);
    t->v = v;
    t->n = n > 0 ? (size_t)n : 0;
    t->stale = false;
}

/* Where the kernel keeps no schedstat: clock ticks, and nothing about waiting. */
static bool read_ticks(pid_t pid, pid_t tid, uint64_t *ret_run)
{
    struct pb_sample_stat s;
    char text[1024];

    if (pb_sample_file(text, sizeof text, "/proc/%d/task/%d/stat", (int)pid, (int)tid) <= 0 ||
        !pb_sample_parse_stat(&s, text))
        return false;
    *ret_run = (s.utime + s.stime) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    return true;
}

static bool read_times(struct pb_tasks *t, pid_t pid, pid_t tid, uint64_t *ret_run,
                       uint64_t *ret_wait)
{
    char text[96];
    const char *at = text;

    if (pb_sample_file(text, sizeof text, "/proc/%d/task/%d/schedstat", (int)pid, (int)tid) > 0 &&
        pb_scan_u64(&at, ret_run) && pb_scan_u64(&at, ret_wait)) {
        t->timed = true;
        return true;
    }
    *ret_wait = 0;
    return !t->timed && read_ticks(pid, tid, ret_run);
}

static void read_switches(struct pb_sampled_thread *x, pid_t pid)
{
    char text[8192];
    uint64_t voluntary, involuntary;

    x->voluntary = x->involuntary = 0;
    if (pb_sample_file(text, sizeof text, "/proc/%d/task/%d/status", (int)pid, (int)x->tid) <= 0 ||
        !pb_scan_key(text, "voluntary_ctxt_switches", &voluntary) ||
        !pb_scan_key(text, "nonvoluntary_ctxt_switches", &involuntary))
        return;
    if (!x->fresh) {
        x->voluntary = voluntary - x->at_voluntary;
        x->involuntary = involuntary - x->at_involuntary;
    }
    x->at_voluntary = voluntary;
    x->at_involuntary = involuntary;
}

static bool read_thread(struct pb_tasks *t, struct pb_sampled_thread *x, pid_t pid)
{
    uint64_t run, wait;

    if (!read_times(t, pid, x->tid, &run, &wait))
        return false;
    x->run_ns = x->fresh ? 0 : run - x->at_run_ns;
    x->wait_ns = x->fresh ? 0 : wait - x->at_wait_ns;
    x->ran = x->run_ns > 0;
    x->at_run_ns = run;
    x->at_wait_ns = wait;
    x->voluntary = x->involuntary = 0;
    if (x->ran || x->fresh)
        read_switches(x, pid);
    return true;
}

void pb_tasks_read(struct pb_tasks *t, pid_t pid, int64_t threads)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++)
        t->v[i].fresh = false;
    if (t->stale || (int64_t)t->n != (threads > THREADS_MAX ? THREADS_MAX : threads))
        list(t, pid);
    for (size_t i = 0; i < t->n; i++) {
        if (read_thread(t, &t->v[i], pid))
            t->v[kept++] = t->v[i];
        else
            t->stale = true;
    }
    t->n = kept;
}
