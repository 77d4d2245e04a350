#include "node/peers/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/jobenv.h"
#include "cluster/ranges.h"
#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "host/python/script.h"
#include "node/discover/pythons.h"

/* What is known of a Python process. */
struct known {
    struct pb_rank rank;
    pid_t parent;
    bool has_rank;
    bool elastic;   /* started by torchrun */
    bool scheduled; /* its number is a scheduler's, not its launcher's */
};

struct pb_ranks {
    struct pb_pythons *pythons;
    pthread_mutex_t lock; /* guards what follows */
    struct known *v; /* by pid */
    size_t n;
};

struct pb_ranks *pb_ranks_create(struct pb_pythons *pythons)
{
    struct pb_ranks *r = pb_alloc_resize(NULL, sizeof *r);

    *r = (struct pb_ranks){.pythons = pythons};
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void pb_ranks_destroy(struct pb_ranks *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r->v);
    free(r);
}

static void copy_text(char *to, size_t cap, const char *from)
{
    snprintf(to, cap, "%s", from ? from : "");
    for (char *p = to; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

static void learn(struct known *k, const struct pb_python *p)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_proc_stat st = {0};
    struct pb_jobenv env;
    size_t len = 0;
    const char *argv, *script;

    *k = (struct known){.rank = {.pid = p->pid, .start = p->start}};
    pb_jobenv_read(p->pid, &a, &env);
    if (env.rank >= 0 && pb_proc_stat(&st, p->pid, 0, NULL) == 0) {
        argv = pb_proc_read(p->pid, "cmdline", &a, &len);
        script = argv ? pb_script_of(argv, len) : NULL;
        if (script && strrchr(script, '/'))
            script = strrchr(script, '/') + 1;
        k->has_rank = true;
        k->parent = st.ppid;
        k->elastic = env.run != NULL;
        k->scheduled = env.scheduled;
        k->rank.rank = (uint32_t)env.rank;
        k->rank.world = env.world > 0 ? (uint32_t)env.world : 0;
        k->rank.restarts = (uint32_t)env.restarts;
        copy_text(k->rank.job, sizeof k->rank.job, env.key);
        copy_text(k->rank.script, sizeof k->rank.script, script);
    }
    pb_arena_finish(&a);
}

static int compare_pids(const void *a, const void *b)
{
    const struct known *x = a, *y = b;

    return (x->rank.pid > y->rank.pid) - (x->rank.pid < y->rank.pid);
}

static const struct known *find(const struct known *v, size_t n, pid_t pid)
{
    struct known key = {.rank.pid = pid};

    return n ? bsearch(&key, v, n, sizeof *v, compare_pids) : NULL;
}

/* Called with the lock held. */
static void refresh(struct pb_ranks *r, const struct pb_python *pythons, size_t n)
{
    struct known *fresh = pb_alloc_resize(NULL, (n + 1) * sizeof *fresh);

    for (size_t i = 0; i < n; i++) {
        const struct known *old = find(r->v, r->n, pythons[i].pid);

        if (old && old->rank.start == pythons[i].start)
            fresh[i] = *old;
        else
            learn(&fresh[i], &pythons[i]);
    }
    free(r->v);
    r->v = fresh;
    r->n = n;
}

/*
 * Under Slurm, and in a pod of Kubeflow, what starts a machine's ranks has a number as well: that
 * of its machine. A rank that has written its number into what its helpers get is none.
 */
static bool launches(const struct known *a, const struct known *child)
{
    if (!child->has_rank || !a->has_rank)
        return false;
    return (child->elastic && !a->elastic) ||
           (a->scheduled && !child->scheduled &&
            (a->rank.rank != child->rank.rank || a->rank.world != child->rank.world));
}

/* Is it one of the processes that the rank has started? */
static bool is_helper(const struct known *k, const struct known *parent)
{
    return parent && parent->has_rank && k->rank.rank == parent->rank.rank &&
           strcmp(k->rank.job, parent->rank.job) == 0 && !launches(parent, k);
}

/* Called with the lock held. */
static bool is_launcher(const struct pb_ranks *r, const struct known *k)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].parent == k->rank.pid && launches(k, &r->v[i]))
            return true;
    return false;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct pb_rank *x = a, *y = b;
    int order = strcmp(x->job, y->job);

    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

size_t pb_ranks_list(struct pb_ranks *r, struct pb_arena *a, struct pb_rank **ret)
{
    struct pb_python *pythons;
    size_t found = pb_pythons_list(r->pythons, a, &pythons), count = 0;

    *ret = PB_NEW_N(a, struct pb_rank, found + 1);
    pthread_mutex_lock(&r->lock);
    refresh(r, pythons, found);
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].has_rank && !is_helper(&r->v[i], find(r->v, r->n, r->v[i].parent)) &&
            !is_launcher(r, &r->v[i]))
            (*ret)[count++] = r->v[i].rank;
    pthread_mutex_unlock(&r->lock);
    qsort(*ret, count, sizeof **ret, compare_ranks);
    return count;
}

static void put_ranks(struct pb_member_job *j, const struct pb_ranges *ranks)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_ranges_text(ranks, &b);
    /* A machine with ranks all over the job: too long to pass on to everybody. */
    if (b.data && b.len < sizeof j->ranks)
        strcpy(j->ranks, b.data);
    pb_buf_finish(&b);
}

size_t pb_ranks_jobs(struct pb_ranks *r, struct pb_member_job **ret)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_ranges ranks = {0};
    struct pb_rank *v;
    size_t count = pb_ranks_list(r, &a, &v), jobs = 0;

    *ret = count ? pb_alloc_resize(NULL, PB_MEMBER_JOBS * sizeof **ret) : NULL;
    for (size_t i = 0; i < count && jobs < PB_MEMBER_JOBS; i++) {
        struct pb_member_job *j = &(*ret)[jobs];

        if (!ranks.n) {
            *j = (struct pb_member_job){.world = v[i].world};
            memcpy(j->key, v[i].job, sizeof j->key);
            memcpy(j->script, v[i].script, sizeof j->script);
        }
        if (!v[i].world || v[i].rank < v[i].world)
            pb_ranges_add(&ranks, v[i].rank, v[i].rank);
        if (v[i].restarts > j->restarts)
            j->restarts = v[i].restarts;
        if (i + 1 < count && strcmp(v[i].job, v[i + 1].job) == 0)
            continue;
        put_ranks(j, &ranks);
        pb_ranges_finish(&ranks);
        jobs++;
    }
    pb_ranges_finish(&ranks);
    pb_arena_finish(&a);
    return jobs;
}

static bool is_of_job(const struct pb_rank *r, const char *job)
{
    size_t len = strlen(r->script);

    if (!job || strcmp(r->job, job) == 0 || strcmp(r->script, job) == 0)
        return true;
    return len > 3 && strcmp(r->script + len - 3, ".py") == 0 && strlen(job) == len - 3 &&
           strncmp(r->script, job, len - 3) == 0;
}

int pb_ranks_select(struct pb_ranks *r, const char *ranks, const char *job, struct pb_arena *a,
                    struct pb_rank **ret, size_t *ret_n, struct pb_err *err)
{
    struct pb_ranges wanted = {0};
    struct pb_rank *v;
    size_t count, n = 0;
    int rc = 0;

    if (ranks && pb_ranges_parse(&wanted, ranks, err) < 0)
        return -1;
    count = pb_ranks_list(r, a, &v);
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (!is_of_job(&v[i], job) || (ranks && !pb_ranges_has(&wanted, v[i].rank)))
            continue;
        if (ranks && !job && n && strcmp(v[0].job, v[i].job) != 0)
            rc = pb_err_set(err, PB_USAGE, "%.60s are ranks of several jobs here: %.80s and %.80s; "
                                           "name one: ranks:%.60s@NAME", ranks, v[0].job, v[i].job,
                            ranks);
        v[n++] = v[i];
    }
    *ret = v;
    *ret_n = n;
    pb_ranges_finish(&wanted);
    return rc;
}

int pb_ranks_target(struct pb_ranks *r, const char *ranks, const char *job, struct pb_arena *a,
                    const char **ret_target, struct pb_err *err)
{
    struct pb_buf b = PB_BUF_INIT;
    struct pb_rank *v;
    size_t n;

    *ret_target = NULL;
    if (pb_ranks_select(r, ranks, job, a, &v, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        pb_buf_printf(&b, "%s%d-%llu?", b.len ? "," : "", (int)v[i].pid,
                      (unsigned long long)v[i].start);
    if (b.len)
        *ret_target = pb_arena_strdup(a, b.data);
    pb_buf_finish(&b);
    return 0;
}
