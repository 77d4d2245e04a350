#include "node/watchdog/cores.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/discover/discover.h"

/* Cores' worth of time that the container is given, as it sees itself; 0: no limit is known. */
static double container_limit(void)
{
    double quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");

    if (file) {
        if (fscanf(file, "%lf %lf", &quota, &period) != 2)
            quota = 0; /* "max" */
        fclose(file);
        return quota > 0 && period > 0 ? quota / period : 0;
    }
    file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re");
    if (file && fscanf(file, "%lf", &quota) != 1)
        quota = 0;
    if (file)
        fclose(file);
    file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
    if (file && fscanf(file, "%lf", &period) != 1)
        period = 0;
    if (file)
        fclose(file);
    return quota > 0 && period > 0 ? quota / period : 0;
}

int pb_cores_half_of(int cores, double limit)
{
    if (limit > 0 && limit < cores)
        cores = limit < 1 ? 1 : (int)limit;
    return cores < 2 ? 1 : cores < 4 ? 2 : cores / 2;
}

int pb_cores_half(const cpu_set_t *all)
{
    return pb_cores_half_of(CPU_COUNT(all), container_limit());
}

/* From the last one down: the first ones have the interrupts. */
void pb_cores_keep(cpu_set_t *set, int most)
{
    int n = 0;

    for (int i = CPU_SETSIZE - 1; i >= 0; i--)
        if (CPU_ISSET(i, set) && ++n > most)
            CPU_CLR(i, set);
}

void pb_cores_bind(const cpu_set_t *all)
{
    cpu_set_t half = *all;

    pb_cores_keep(&half, pb_cores_half(all));
    if (CPU_COUNT(&half))
        sched_setaffinity(0, sizeof half, &half);
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
static void exclude_cores_of(pid_t pid, long all, cpu_set_t *free_cores)
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

void pb_cores_yield(struct pb_discover *d, const cpu_set_t *all)
{
    struct pb_stores *stores = pb_discover_snapshot(d, 1000);
    cpu_set_t left = *all, now;

    for (size_t i = 0; i < stores->nstores; i++)
        if (stores->stores[i]->process.live && stores->stores[i]->process.pid != getpid())
            exclude_cores_of(stores->stores[i]->process.pid, CPU_COUNT(all), &left);
    pb_stores_unref(stores);
    if (CPU_COUNT(&left) == 0)
        left = *all;
    pb_cores_keep(&left, pb_cores_half(all));
    if (sched_getaffinity(0, sizeof now, &now) == 0 && !CPU_EQUAL(&now, &left))
        move_threads(&left);
}
