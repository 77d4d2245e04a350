/*
 * ranks.h - the ranks of jobs that run on this machine.
 *
 * Owns: what it learnt of each process's environment, read once for each.
 * Threads: any.
 * Fails: never; a process that ends meanwhile is left out.
 * Not here: other machines (peers.h).
 *
 * A rank is the outermost Python process with that rank of a job: workers of its data loader have
 * inherited its environment and are part of it.
 */
#ifndef PB_NODE_PEERS_RANKS_H
#define PB_NODE_PEERS_RANKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cluster/members.h"
#include "host/text/arena.h"

struct pb_pythons;
struct pb_ranks;

struct pb_rank {
    pid_t pid;
    uint64_t start;
    uint32_t rank, world, restarts; /* world 0: not told */
    char job[PB_MEMBER_JOB];        /* "" when nobody tells */
    char script[PB_MEMBER_SCRIPT];
};

struct pb_ranks *pb_ranks_create(struct pb_pythons *pythons);
void pb_ranks_destroy(struct pb_ranks *r);
/* Lists this user's ranks, as root everybody's: by job, then rank; in the arena. */
size_t pb_ranks_list(struct pb_ranks *r, struct pb_arena *a, struct pb_rank **ret);
/* Lists them as a node tells it to others, for one record. *ret is malloc'd. */
size_t pb_ranks_jobs(struct pb_ranks *r, struct pb_member_job **ret);

/* Finds the ranks that are meant, by pb_ranks_target's rules; none is no error. In the arena. */
int pb_ranks_select(struct pb_ranks *r, const char *ranks, const char *job, struct pb_arena *a,
                    struct pb_rank **ret, size_t *ret_n, struct pb_err *err);

/*
 * Which of them a question is about, as a target for pb_node_scope: "12-345,67-890". ranks: "0-7",
 * or NULL for all; job: key or script of a job, or NULL. NULL in *ret_target when none of them is
 * here. PB_USAGE when the ranks are those of several jobs and job is NULL.
 */
int pb_ranks_target(struct pb_ranks *r, const char *ranks, const char *job, struct pb_arena *a,
                    const char **ret_target, struct pb_err *err);

#endif
