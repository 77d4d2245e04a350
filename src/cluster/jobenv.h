/*
 * jobenv.h - what a process's environment says of the job it belongs to.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: any.
 * Fails: never; what nobody tells is -1 or NULL. What it tells is believed of the process itself
 * and of nobody else.
 * Not here: which processes there are (host/python/processes.h).
 *
 * Read as it was when the process started, from /proc: torchrun and other launchers of PyTorch
 * (Kubeflow, Kubernetes), Slurm, Open MPI, MPICH, PBS, LSF.
 */
#ifndef PB_CLUSTER_JOBENV_H
#define PB_CLUSTER_JOBENV_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "cluster/hostlist.h"
#include "host/text/arena.h"

struct pb_jobenv {
    long rank, world, local_rank, local_world; /* -1: not told */
    long restarts;                             /* by torchelastic; 0 */
    bool scheduled; /* the rank is one that Slurm or MPI gave, which a launcher may have as well */
    /*
     * What all ranks of the job have in common and no other job at the same time: where they meet
     * ("10.0.0.1:29500"), else the number that a scheduler gave it ("slurm 4711"). NULL: none.
     */
    const char *key;
    const char *run;    /* TORCHELASTIC_RUN_ID, or NULL */
    const char *master; /* host that they meet at, or NULL */
    const char *slurm;  /* job of Slurm, or NULL */
    const char *nodes;  /* its list of hosts, in the short form, or NULL */
    const char *hosts_file; /* PBS_NODEFILE, or NULL */
    const char *service; /* service of Kubernetes, "job-name.subdomain", or NULL */
    bool apart;          /* the master is none of the service's pods */
};

void pb_jobenv_read(pid_t pid, struct pb_arena *a, struct pb_jobenv *ret);
/* The same from a block of NUL-separated variables, with a NUL behind it. */
void pb_jobenv_parse(const char *block, size_t len, struct pb_arena *a, struct pb_jobenv *ret);

/* Hosts of the job as far as the environment names them; a list that cannot be is none. */
void pb_jobenv_hosts(const struct pb_jobenv *e, struct pb_hosts *h, struct pb_arena *a);

#endif
