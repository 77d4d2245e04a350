/*
 * Since when nothing moves, by the kernel's own clock of each thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/process/proc.h"
#include "node/waits/internal.h"

#define FAMILY_DEPTH 4

/* When the kernel last gave the thread a CPU, in its own clock; below 0: it does not tell. */
static double last_ran(const char *path)
{
    char buf[512];
    const char *at;
    size_t n;
    FILE *f = fopen(path, "re");

    if (!f)
        return -1;
    n = fread(buf, 1, sizeof buf - 1, f);
    buf[n] = '\0';
    fclose(f);
    at = strstr(buf, "se.exec_start");
    at = at ? strchr(at, ':') : NULL;
    return at ? strtod(at + 1, NULL) : -1;
}

static double since_ran(pid_t pid, pid_t tid)
{
    double now = last_ran("/proc/thread-self/sched"), then;
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/task/%d/sched", (int)pid, (int)tid);
    then = last_ran(path);
    return now >= then && then >= 0 ? now - then : 0;
}

/* Since any thread of a process ran; a large number for one that has ended. */
static double process_idle(pid_t pid, struct pb_arena *a)
{
    struct pb_err ignored = {0};
    double idle = 1e12;
    pid_t *tids;
    int n = pb_proc_threads(pid, a, &tids, &ignored);

    for (int i = 0; i < n; i++) {
        double one = since_ran(pid, tids[i]);

        idle = one < idle ? one : idle;
    }
    return idle;
}

/* The same with all that it has started: a shell waits while its command works. */
static double family_idle(pid_t pid, int depth, struct pb_arena *a)
{
    double idle = process_idle(pid, a);
    struct pb_err ignored = {0};
    pid_t *pids;
    int n = depth ? pb_proc_pids(a, &pids, &ignored) : 0;

    for (int i = 0; i < n; i++) {
        struct pb_proc_stat st;
        double one;

        ignored = (struct pb_err){0};
        if (pb_proc_stat(&st, pids[i], 0, &ignored) < 0 || st.ppid != pid)
            continue;
        one = family_idle(pids[i], depth - 1, a);
        idle = one < idle ? one : idle;
    }
    return idle;
}

void pb_wait_find_stall(struct pb_wait *w)
{
    w->stalled_ms = since_ran(w->process->pid, w->thread->tid);
}

void pb_wait_find_idle_peer(struct pb_wait *w)
{
    struct pb_arena scratch = PB_ARENA_INIT;

    w->on_idle_ms = -1;
    if (w->on_pid && w->on_pid != w->process->pid)
        w->on_idle_ms = family_idle(w->on_pid, FAMILY_DEPTH, &scratch);
    pb_arena_finish(&scratch);
}
