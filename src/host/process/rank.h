/*
 * rank.h - which rank of its job a process is.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never; -1 for what nobody tells.
 * Not here: what an agent knows better, from torch.distributed (agent/collectors/meta.c).
 */
#ifndef PB_HOST_PROCESS_RANK_H
#define PB_HOST_PROCESS_RANK_H

#include <sys/types.h>

#include "host/text/arena.h"

/*
 * The rank that torchrun, Open MPI, Slurm or MPICH put into the environment, and of how many; -1
 * when it does not tell. The arena is scratch.
 */
void pb_rank_read(pid_t pid, struct pb_arena *a, long *ret_rank, long *ret_world);

#endif
