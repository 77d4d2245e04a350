/* Questions without a target: which processes they cover, and how many that are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/home.h"
#include "host/process/proc.h"
#include "node/discover/internal.h"
#include "node/discover/pythons.h"
#include "node/parts.h"

static int by_pid(const void *a, const void *b)
{
    const struct pb_scope_process *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* A node's folder tells its role; it is no job. */
static bool is_agent(const struct pb_store *s, struct pb_arena *a)
{
    return !pb_store_value(s->meta, "role", a);
}

static struct pb_scope_process python_process(const struct pb_python *p)
{
    struct pb_scope_process ret = {.pid = p->pid, .start = p->start, .live = true,
                                   .since_ns = pb_process_since_ns(p->start),
                                   .until_ns = INT64_MAX};

    snprintf(ret.id, sizeof ret.id, "%d-%llu", (int)p->pid, (unsigned long long)p->start);
    return ret;
}

static bool has_pid(const struct pb_scope_process *v, size_t n, pid_t pid)
{
    struct pb_scope_process key = {.pid = pid};

    return bsearch(&key, v, n, sizeof *v, by_pid) != NULL;
}

/*
 * Sorted by pid. Processes that are not Python belong to it because rows are written about them
 * (gpu.process); when they started is not asked, which would take a read of each.
 */
void pb_node_scope_all(struct pb_node *n, bool dead, struct pb_arena *a, struct pb_scope *ret)
{
    int64_t boot_ns = pb_process_since_ns(0);
    struct pb_stores *stores;
    struct pb_scope_process *v;
    struct pb_python *pythons;
    size_t count = 0, npythons, known;
    pid_t *pids = NULL;
    int npids;

    ret->all = dead || n->opts.store_dir;
    ret->living = !ret->all;
    ret->processes = NULL;
    ret->nprocesses = 0;
    if (ret->all)
        return;
    npythons = pb_pythons_list(n->pythons, a, &pythons);
    npids = pb_proc_pids(a, &pids, NULL);
    stores = pb_discover_snapshot(n->discover, 0);
    v = PB_NEW_N(a, struct pb_scope_process,
                 stores->nstores + npythons + (size_t)(npids > 0 ? npids : 0) + 1);
    for (size_t i = 0; i < stores->nstores; i++)
        if (stores->stores[i]->process.live)
            v[count++] = stores->stores[i]->process;
    pb_stores_unref(stores);
    qsort(v, count, sizeof *v, by_pid);
    known = count;
    for (size_t i = 0; i < npythons; i++)
        if (!has_pid(v, known, pythons[i].pid))
            v[count++] = python_process(&pythons[i]);
    qsort(v, count, sizeof *v, by_pid);
    known = count;
    for (int i = 0; i < npids; i++)
        if (!has_pid(v, known, pids[i]))
            v[count++] = (struct pb_scope_process){
                .pid = pids[i], .live = true, .since_ns = boot_ns, .until_ns = INT64_MAX};
    qsort(v, count, sizeof *v, by_pid);
    ret->processes = v;
    ret->nprocesses = count;
}

static bool is_store(const struct pb_stores *stores, const char *id)
{
    for (size_t i = 0; i < stores->nstores; i++)
        if (strcmp(stores->stores[i]->process.id, id) == 0)
            return true;
    return false;
}

/* Python processes, and those with an agent, which may be in a container and not be seen so. */
static size_t count_living(struct pb_node *n, const struct pb_stores *stores, struct pb_arena *a)
{
    struct pb_python *pythons;
    size_t count = n->opts.store_dir ? 0 : pb_pythons_list(n->pythons, a, &pythons);
    size_t npythons = count;

    for (size_t i = 0; i < stores->nstores; i++) {
        const struct pb_store *s = stores->stores[i];
        bool counted = !s->process.live || !is_agent(s, a);

        for (size_t k = 0; k < npythons && !counted; k++)
            counted = pythons[k].pid == s->process.pid;
        count += !counted;
    }
    return count;
}

static size_t count_ended(struct pb_node *n, const struct pb_stores *stores, struct pb_arena *a)
{
    struct pb_archive_process *v = NULL;
    size_t nfiles = n->archive ? pb_archive_processes(n->archive, a, &v) : 0, count = 0;

    for (size_t i = 0; i < stores->nstores; i++)
        count += !stores->stores[i]->process.live && is_agent(stores->stores[i], a);
    for (size_t i = 0; i < nfiles; i++)
        count += !is_store(stores, v[i].id);
    return count;
}

void pb_node_count(struct pb_node *n, const struct pb_scope *s, struct pb_arena *a,
                   struct pb_node_count *ret)
{
    struct pb_stores *stores;

    *ret = (struct pb_node_count){0};
    for (size_t i = 0; !pb_scope_is_node(s) && i < s->nprocesses; i++)
        s->processes[i].live ? ret->living++ : ret->ended++;
    if (!pb_scope_is_node(s))
        return;
    stores = pb_discover_snapshot(n->discover, 1000);
    ret->living = count_living(n, stores, a);
    ret->ended = s->all ? count_ended(n, stores, a) : 0;
    pb_stores_unref(stores);
}
