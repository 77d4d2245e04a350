/*
 * cores.h - the cores that the node may use beside a training.
 *
 * Owns: nothing.
 * Threads: any for reading; yield from one.
 * Fails: never; where the system says nothing all cores are free.
 * Not here: how many threads the engine has (sql/engine.c).
 */
#ifndef PB_NODE_CORES_H
#define PB_NODE_CORES_H

#include <sched.h>
#include <stdbool.h>

struct pb_node;

/*
 * How many threads may work at a time: half of the cores that this process may use, two where there
 * are two.
 */
int pb_cores_half(void);
/* What this process may use. reset: all that the system allows, not what it was started with. */
void pb_cores_find(bool reset, cpu_set_t *ret);
/*
 * Moves all threads of this process away from the cores that probed processes are pinned to. all:
 * what the process could use when it started. Nothing changes when that would leave no core.
 */
void pb_cores_yield(struct pb_node *n, const cpu_set_t *all);

#endif
