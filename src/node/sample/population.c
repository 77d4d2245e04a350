#include "node/sample/population.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "host/python/detect.h"
#include "host/process/rank.h"
#include "node/sample/procfile.h"
#include "node/sample/tasks.h"

#define SECOND 1000000000ull
#define LIST_NS (2 * SECOND)
#define ASK_MAX_NS (60 * SECOND)
/* What was learned of files goes with its arena; programs come and go on a machine. */
#define FORGET_NS (600 * SECOND)

/* Every process of the machine: is it Python, and when to ask again. */
struct known {
    pid_t pid;
    bool python;
    uint64_t first_ns, ask_ns;
};

struct process {
    struct pb_sampled sampled; /* pid 0: free */
    struct pb_tasks tasks;
};

struct pb_population {
    struct process slots[PB_SAMPLED_MAX];
    struct pb_sampled out[PB_SAMPLED_MAX];
    size_t nout;
    struct known *known; /* by pid */
    size_t nknown;
    struct pb_arena learned; /* the detector's */
    struct pb_py_detector detector;
    uint64_t forget_ns, list_ns;
    uint64_t serial;
    size_t left_out;
    uid_t uid;
};

struct pb_population *pb_population_create(void)
{
    struct pb_population *p = pb_alloc_resize(NULL, sizeof *p);

    memset(p, 0, sizeof *p);
    p->uid = geteuid();
    pb_py_detector_init(&p->detector, &p->learned);
    return p;
}

void pb_population_destroy(struct pb_population *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < PB_SAMPLED_MAX; i++)
        pb_tasks_finish(&p->slots[i].tasks);
    free(p->known);
    pb_arena_finish(&p->learned);
    free(p);
}

/* Other users' processes are none of ours, even where /proc shows them. */
static bool is_ours(const struct pb_population *p, pid_t pid)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &st) == 0 && (p->uid == 0 || st.st_uid == p->uid);
}

static bool is_python(struct pb_population *p, pid_t pid)
{
    struct pb_py_found found;

    return pid != getpid() && is_ours(p, pid) && pb_py_detect(&p->detector, pid, &found);
}

static struct process *find(struct pb_population *p, pid_t pid)
{
    for (size_t i = 0; i < PB_SAMPLED_MAX; i++) {
        if (p->slots[i].sampled.pid == pid)
            return &p->slots[i];
    }
    return NULL;
}

static void drop(struct process *x)
{
    pb_tasks_finish(&x->tasks);
    x->sampled = (struct pb_sampled){0};
}

static bool read_stat(struct pb_sample_stat *ret, pid_t pid)
{
    char text[1024];

    return pb_sample_file(text, sizeof text, "/proc/%d/stat", (int)pid) > 0 &&
           pb_sample_parse_stat(ret, text) && ret->state != 'Z' && ret->state != 'X';
}

static void add(struct pb_population *p, pid_t pid)
{
    struct process *x = find(p, pid);
    struct pb_sample_stat stat;
    struct pb_arena scratch = PB_ARENA_INIT;
    long rank, world;

    if (x)
        return;
    x = find(p, 0);
    if (!x) {
        p->left_out++;
        return;
    }
    if (!read_stat(&stat, pid))
        return;
    pb_rank_read(pid, &scratch, &rank, &world);
    pb_arena_finish(&scratch);
    x->sampled = (struct pb_sampled){
        .pid = pid,
        .start = stat.start,
        .rank = rank,
        .slot = (unsigned)(x - p->slots),
        .serial = ++p->serial,
        .fresh = true,
    };
}

/* What is known of a pid, asked anew when it is time. */
static struct known examine(struct pb_population *p, pid_t pid, const struct known *old,
                            uint64_t now_ns)
{
    struct known k = {.pid = pid, .first_ns = now_ns};
    struct process *x;
    uint64_t wait;

    if (old) {
        k = *old;
        if (now_ns < k.ask_ns)
            return k;
    }
    k.python = is_python(p, pid);
    wait = now_ns - k.first_ns;
    k.ask_ns = now_ns + (wait < LIST_NS ? LIST_NS : wait > ASK_MAX_NS ? ASK_MAX_NS : wait);
    x = k.python ? NULL : find(p, pid);
    if (x)
        drop(x);
    return k;
}

static void list(struct pb_population *p, uint64_t now_ns)
{
    struct pb_arena scratch = PB_ARENA_INIT;
    struct known *known;
    size_t old = 0;
    pid_t *pids;
    int n = pb_proc_pids(&scratch, &pids, NULL);

    if (n < 0) {
        pb_arena_finish(&scratch);
        return;
    }
    known = pb_alloc_resize(NULL, ((size_t)n + 1) * sizeof *known);
    p->left_out = 0;
    for (int i = 0; i < n; i++) {
        while (old < p->nknown && p->known[old].pid < pids[i])
            old++;
        known[i] = examine(p, pids[i],
                           old < p->nknown && p->known[old].pid == pids[i] ? &p->known[old] : NULL,
                           now_ns);
        if (known[i].python)
            add(p, pids[i]);
    }
    pb_arena_finish(&scratch);
    free(p->known);
    p->known = known;
    p->nknown = (size_t)n;
}

/* False when it is gone, also when its number was given to another. */
static bool refresh(struct process *x)
{
    struct pb_sampled *s = &x->sampled;
    struct pb_sample_stat now;

    if (!read_stat(&now, s->pid) || now.start != s->start)
        return false;
    s->fresh = !s->now.state;
    s->before = s->fresh ? now : s->now;
    s->now = now;
    pb_tasks_read(&x->tasks, s->pid, now.threads);
    s->threads = x->tasks.v;
    s->nthreads = x->tasks.n;
    s->timed = x->tasks.timed;
    return true;
}

void pb_population_read(struct pb_population *p, uint64_t mono_ns)
{
    if (mono_ns >= p->forget_ns) {
        pb_arena_finish(&p->learned);
        p->learned = (struct pb_arena)PB_ARENA_INIT;
        pb_py_detector_init(&p->detector, &p->learned);
        p->forget_ns = mono_ns + FORGET_NS;
    }
    if (mono_ns >= p->list_ns) {
        list(p, mono_ns);
        p->list_ns = mono_ns + LIST_NS;
    }
    p->nout = 0;
    for (size_t i = 0; i < PB_SAMPLED_MAX; i++) {
        struct process *x = &p->slots[i];

        if (!x->sampled.pid)
            continue;
        if (refresh(x))
            p->out[p->nout++] = x->sampled;
        else
            drop(x);
    }
}

const struct pb_sampled *pb_population_processes(const struct pb_population *p, size_t *ret_n)
{
    *ret_n = p->nout;
    return p->out;
}

size_t pb_population_omitted(const struct pb_population *p)
{
    return p->left_out;
}
