#include "node/cores.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/node.h"

int pb_cores_half(void)
{
    cpu_set_t mine;
    long cores = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine)
                                                               : sysconf(_SC_NPROCESSORS_ONLN);

    return cores < 2 ? 1 : cores < 4 ? 2 : (int)(cores / 2);
}

void pb_cores_find(bool reset, cpu_set_t *ret)
{
    memset(ret, 0xff, sizeof *ret);
    if (reset)
        sched_setaffinity(0, sizeof *ret, ret);
    if (sched_getaffinity(0, sizeof *ret, ret) < 0)
        CPU_ZERO(ret);
}

/* A process is pinned when it may use fewer cores than we could. */
static void leave_to(pid_t pid, long all, cpu_set_t *free_cores)
{
    cpu_set_t its;

    if (sched_getaffinity(pid, sizeof its, &its) < 0 || CPU_COUNT(&its) >= all)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &its))
            CPU_CLR(i, free_cores);
}

static void move_threads(const cpu_set_t *to)
{
    DIR *dir = opendir("/proc/self/task");

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            sched_setaffinity(atoi(e->d_name), sizeof *to, to);
    if (dir)
        closedir(dir);
}

void pb_cores_yield(struct pb_node *n, const cpu_set_t *all)
{
    struct pb_stores *stores = pb_discover_take(n->discover, 1000);
    cpu_set_t left = *all, now;

    for (size_t i = 0; i < stores->nstores; i++)
        if (stores->stores[i]->process.live && stores->stores[i]->process.pid != getpid())
            leave_to(stores->stores[i]->process.pid, CPU_COUNT(all), &left);
    pb_stores_drop(stores);
    if (CPU_COUNT(&left) == 0)
        left = *all;
    if (sched_getaffinity(0, sizeof now, &now) == 0 && !CPU_EQUAL(&now, &left))
        move_threads(&left);
}
