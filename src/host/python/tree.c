#include "host/python/tree.h"

#include <string.h>

#include "host/process/proc.h"
#include "host/python/processes.h"
#include "host/process/rank.h"
#include "host/text/secret.h"

/* Deeper than this is no tree, but pids that were given to others while it was read. */
#define DEPTH_MAX 64

struct entry {
    pid_t pid, parent;
    bool taken;
};

struct reading {
    struct pb_arena *a;
    struct pb_py_detector detector;
    struct entry *all;
    size_t n;
    bool (*within)(pid_t pid, void *arg);
    void *arg;
    struct pb_tree_process *found;
    size_t nfound;
};

static bool describe(struct reading *r, struct pb_tree_process *p)
{
    struct pb_process whole = {.pid = p->pid};
    struct pb_arena scratch = PB_ARENA_INIT;

    if (p->depth && r->within && !r->within(p->pid, r->arg))
        return false;
    p->is_python = pb_py_detect(&r->detector, p->pid, &whole.python);
    whole.argv = pb_proc_read(p->pid, "cmdline", r->a, &whole.argv_len);
    if (!whole.argv || !whole.argv_len)
        return false; /* it has ended, or belongs to the kernel */
    whole.command = pb_secret_command(whole.argv, whole.argv_len, pb_proc_command(p->pid, r->a),
                                      r->a);
    p->command = pb_process_short_command(&whole);
    pb_rank_read(p->pid, &scratch, &p->rank, &p->world_size);
    pb_arena_finish(&scratch);
    return true;
}

static size_t count_python(const struct reading *r, size_t from)
{
    size_t n = 0;

    for (size_t i = from; i < r->nfound; i++)
        n += r->found[i].is_python;
    return n;
}

/* Adds a process and what is below it; takes all of it back when there is no Python in it. */
static void add(struct reading *r, pid_t pid, pid_t parent, size_t depth)
{
    struct pb_tree_process *p = &r->found[r->nfound];
    size_t at = r->nfound, last = 0;

    *p = (struct pb_tree_process){.pid = pid, .parent = parent, .depth = depth, .is_last = true};
    if (depth >= DEPTH_MAX || !describe(r, p))
        return;
    r->nfound++;
    for (size_t i = 0; i < r->n; i++) {
        size_t before = r->nfound;

        if (r->all[i].parent != pid || r->all[i].taken)
            continue;
        r->all[i].taken = true;
        add(r, r->all[i].pid, pid, depth + 1);
        if (r->nfound == before)
            continue;
        if (last)
            r->found[last].is_last = false;
        last = before;
    }
    if (depth && !count_python(r, at))
        r->nfound = at;
}

int pb_tree_read(pid_t pid, bool (*within)(pid_t pid, void *arg), void *arg, struct pb_arena *a,
                 struct pb_tree_process **ret, struct pb_err *err)
{
    struct reading r = {.a = a, .within = within, .arg = arg};
    pid_t *pids;
    int n = pb_proc_pids(a, &pids, err);

    if (n < 0)
        return -1;
    pb_py_detector_init(&r.detector, a);
    r.all = PB_NEW_N(a, struct entry, (size_t)n + 1);
    r.found = PB_NEW_N(a, struct pb_tree_process, (size_t)n + 2);
    for (int i = 0; i < n; i++) {
        struct pb_proc_stat st;

        if (pb_proc_stat(&st, pids[i], 0, NULL) == 0 && st.state != 'Z')
            r.all[r.n++] = (struct entry){st.pid, st.ppid, st.pid == pid};
    }
    add(&r, pid, 0, 0);
    if (!r.nfound)
        return pb_err_set(err, PB_NO_TARGET, "%d: the process has ended", (int)pid);
    *ret = r.found;
    return (int)r.nfound;
}
