#include "node/discover/pythons.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/home.h"
#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "host/python/detect.h"

/* What was no Python may have become one by exec. */
#define ASK_AGAIN_NS 500000000ull
/* The detector remembers files for good: begin anew now and then. */
#define FORGET_AFTER 10000

struct known {
    struct pb_python python;
    bool is_python;
    uint64_t asked_ns;
};

struct pb_pythons {
    pthread_mutex_t lock; /* guards all below */
    struct pb_arena arena;
    struct pb_py_detector detector;
    unsigned asked;
    struct known *v; /* by pid */
    size_t n;
};

struct pb_pythons *pb_pythons_create(void)
{
    struct pb_pythons *p = pb_alloc_resize(NULL, sizeof *p);

    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    pb_py_detector_init(&p->detector, &p->arena);
    return p;
}

void pb_pythons_destroy(struct pb_pythons *p)
{
    if (!p)
        return;
    pb_arena_finish(&p->arena);
    pthread_mutex_destroy(&p->lock);
    free(p->v);
    free(p);
}

static bool is_ours(pid_t pid)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &st) == 0 && (geteuid() == 0 || st.st_uid == geteuid());
}

static void ask(struct pb_pythons *p, struct known *k, pid_t pid)
{
    struct pb_py_found found;

    if (++p->asked % FORGET_AFTER == 0) {
        pb_arena_finish(&p->arena);
        p->arena = (struct pb_arena)PB_ARENA_INIT;
        pb_py_detector_init(&p->detector, &p->arena);
    }
    *k = (struct known){.python.pid = pid, .asked_ns = pb_clock_ns()};
    k->python.start = pb_home_start_time(pid);
    k->is_python = pid != getpid() && is_ours(pid) && pb_py_detect(&p->detector, pid, &found);
    if (k->is_python)
        snprintf(k->python.version, sizeof k->python.version, "%s", found.version);
}

/* Python stays Python while the process lives; an exec to something else shows up late. */
static bool is_current(const struct known *k, uint64_t now)
{
    if (!k->is_python)
        return now - k->asked_ns < ASK_AGAIN_NS;
    return now - k->asked_ns < 20 * ASK_AGAIN_NS &&
           pb_home_start_time(k->python.pid) == k->python.start;
}

size_t pb_pythons_list(struct pb_pythons *p, struct pb_arena *a, struct pb_python **ret)
{
    uint64_t now = pb_clock_ns();
    struct known *fresh;
    size_t old = 0, n = 0;
    pid_t *pids;
    int npids = pb_proc_pids(a, &pids, NULL);

    if (npids < 0)
        npids = 0;
    *ret = PB_NEW_N(a, struct pb_python, (size_t)npids + 1);
    fresh = pb_alloc_resize(NULL, ((size_t)npids + 1) * sizeof *fresh);
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < npids; i++) {
        while (old < p->n && p->v[old].python.pid < pids[i])
            old++;
        if (old < p->n && p->v[old].python.pid == pids[i] && is_current(&p->v[old], now))
            fresh[i] = p->v[old];
        else
            ask(p, &fresh[i], pids[i]);
        if (fresh[i].is_python)
            (*ret)[n++] = fresh[i].python;
    }
    free(p->v);
    p->v = fresh;
    p->n = (size_t)npids;
    pthread_mutex_unlock(&p->lock);
    return n;
}
