/*
 * cores.h - the cores that the node may use beside a training.
 *
 * Owns: nothing.
 * Threads: any for reading; yield from one.
 * Fails: never; where the system says nothing all cores are free.
 * Not here: priority, and how many threads the engine has (sql/engine.c).
 */
#ifndef PB_NODE_CORES_H
#define PB_NODE_CORES_H

#include <sched.h>
#include <stdbool.h>

struct pb_discover;

/*
 * How many cores it may work on at a time: half of those in the set, or of what the container is
 * given where that is less; two where there are two.
 */
int pb_cores_half(const cpu_set_t *all);
/* The same, of a set and a limit in cores (0: none). */
int pb_cores_half_of(int cores, double limit);
/* What this process may use. reset: all that the system allows, not what it was started with. */
void pb_cores_find(bool reset, cpu_set_t *ret);
/* Leaves at most so many cores in the set. */
void pb_cores_keep(cpu_set_t *set, int most);
/* This thread, and those that it starts from now on, work on half of these cores at most. */
void pb_cores_bind(const cpu_set_t *all);
/*
 * Moves all threads of this process to half of the cores in `all`, which it could use when it
 * started, and away from those that probed processes are pinned to, unless that left no core.
 * However many threads there are, whatever they do: the kernel sees to it.
 */
void pb_cores_yield(struct pb_discover *d, const cpu_set_t *all);

#endif
