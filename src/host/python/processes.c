#include "host/python/processes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "host/process/rank.h"

/* Threads looked at to tell whether any of them runs. */
#define THREADS_MAX 256

struct scan {
    struct pb_arena *a;
    struct pb_py_detector detector;
    pid_t *pids;
    pid_t *parents; /* parent of each pid */
    int n;
    struct pb_process *found;
    int nfound;
};

/* A process runs when any of its threads does. */
static char process_state(const struct pb_proc_stat *st, struct pb_arena *a)
{
    struct pb_proc_stat thread;
    pid_t *tids;
    int n;

    if ((st->state != 'S' && st->state != 'D') || st->threads < 2)
        return st->state;
    n = pb_proc_threads(st->pid, a, &tids, NULL);
    for (int i = 0; i < n && i < THREADS_MAX; i++) {
        if (pb_proc_stat(&thread, st->pid, tids[i], NULL) == 0 && thread.state == 'R')
            return 'R';
    }
    return st->state;
}

static const char *user_name(const struct scan *s, uid_t uid)
{
    for (int i = 0; i < s->nfound; i++) {
        if (s->found[i].uid == uid)
            return s->found[i].user;
    }
    return pb_proc_user(uid, s->a);
}

/* False when it is gone, or has ended and left no command behind. */
static bool describe(const struct scan *s, struct pb_process *p, const struct pb_proc_stat *st)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    struct pb_proc_status status;
    size_t len = 0;

    p->pid = st->pid;
    p->argv = pb_proc_read(p->pid, "cmdline", s->a, &len);
    p->argv_len = len;
    if (!p->argv || len == 0 || pb_proc_status(&status, p->pid, NULL) < 0)
        return false;
    p->command = pb_proc_command(p->pid, s->a);
    p->ns_pid = status.ns_pid;
    p->uid = status.euid;
    p->user = user_name(s, p->uid);
    p->threads = st->threads;
    p->state = pb_proc_state_name(process_state(st, &scratch));
    pb_rank_read(p->pid, &scratch, &p->rank, &p->world_size);
    pb_arena_finish(&scratch);
    return true;
}

/* Index of a pid in a sorted list, -1 when it is not there. */
static int find_pid(const pid_t *pids, int n, pid_t pid)
{
    int low = 0, high = n;

    while (low < high) {
        int mid = (low + high) / 2;

        if (pids[mid] < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && pids[low] == pid ? low : -1;
}

static bool is_found(const struct scan *s, pid_t pid)
{
    for (int i = 0; i < s->nfound; i++) {
        if (s->found[i].pid == pid)
            return true;
    }
    return false;
}

/* Up through shells and launchers; the depth is bounded because pids may be reused meanwhile. */
static pid_t python_ancestor(const struct scan *s, pid_t pid)
{
    for (int depth = 0; depth < 64; depth++) {
        int i = find_pid(s->pids, s->n, pid);

        if (i < 0)
            return 0;
        pid = s->parents[i];
        if (is_found(s, pid))
            return pid;
    }
    return 0;
}

int pb_processes_read(struct pb_arena *a, struct pb_process **ret, struct pb_err *err)
{
    struct scan s = {.a = a};

    pb_py_detector_init(&s.detector, a);
    s.n = pb_proc_pids(a, &s.pids, err);
    if (s.n < 0)
        return -1;
    s.parents = PB_NEW_N(a, pid_t, (size_t)s.n + 1);
    s.found = PB_NEW_N(a, struct pb_process, (size_t)s.n + 1);
    for (int i = 0; i < s.n; i++) {
        struct pb_process *p = &s.found[s.nfound];
        struct pb_proc_stat st;

        if (s.pids[i] == getpid() || pb_proc_stat(&st, s.pids[i], 0, NULL) < 0)
            continue;
        s.parents[i] = st.ppid;
        if (pb_py_detect(&s.detector, s.pids[i], &p->python) && describe(&s, p, &st))
            s.nfound++;
    }
    for (int i = 0; i < s.nfound; i++)
        s.found[i].parent = python_ancestor(&s, s.found[i].pid);
    *ret = s.found;
    return s.nfound;
}

const char *pb_process_short_command(const struct pb_process *p)
{
    size_t first = strnlen(p->argv, p->argv_len);
    const char *rest = p->command + first;

    /* A process that gave itself a title has no interpreter in front. */
    if (!pb_py_is_program_name(p->argv) || strlen(p->command) <= first + 1)
        return p->command;
    return rest + strspn(rest, " ");
}
