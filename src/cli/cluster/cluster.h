/*
 * cluster.h - what the files of `probing cluster` share.
 *
 * Owns: nothing; everything lives in the context's arena.
 * Threads: one; nodes on other machines are started by processes of their own, many at once.
 * Fails: for each host on its own, with one line.
 * Not here: the cluster itself (node/peers/).
 */
#ifndef PB_CLI_CLUSTER_CLUSTER_H
#define PB_CLI_CLUSTER_CLUSTER_H

#include "cli/cmd.h"
#include "cluster/hostlist.h"

/* A machine that a node is wanted on. */
struct pb_cluster_host {
    const char *name;    /* as it was found: a name or an address */
    const char *login;   /* the name alone, for ssh and srun */
    const char *address; /* numbers, without a port */
    int port;            /* 0: the usual ones */
    bool joined;
    const char *how; /* "joined", "started by ssh" */
    const char *why; /* why it is not there, or NULL */
};

struct pb_cluster_hosts {
    struct pb_cluster_host *v;
    size_t n;
    const char *slurm; /* job that the list is from, or NULL */
    bool found;        /* by the environment of processes here, not named by anybody */
};

/*
 * The machines to attach: those named on the command line, else those of the jobs that run here.
 * This machine is not among them. What cannot be resolved has a reason and no address.
 */
int pb_cluster_find(struct pb_ctx *ctx, char **names, int n, struct pb_cluster_hosts *ret);

/* "10.0.0.3", 7707 → "10.0.0.3:7707"; with brackets where they are needed. */
const char *pb_cluster_join(struct pb_ctx *ctx, const char *address, int port);
/* Our own address on the way to another, without a port; NULL when there is no way. */
const char *pb_cluster_own_address(struct pb_ctx *ctx, const char *address);

struct pb_cluster_start {
    const char *name;  /* name of the cluster */
    const char *token; /* token that the nodes share */
    int port;          /* where our own node listens */
};

/* Starts a node by ssh on each host that has no `joined`; sets how, or why. */
void pb_cluster_start_ssh(struct pb_ctx *ctx, const struct pb_cluster_start *w,
                          struct pb_cluster_host **v, size_t n);
/* The same by srun inside the allocation of a job of Slurm. */
void pb_cluster_start_slurm(struct pb_ctx *ctx, const struct pb_cluster_start *w, const char *job,
                            struct pb_cluster_host **v, size_t n);

/* probing cluster attach. */
int pb_cluster_attach(struct pb_ctx *ctx);
/* probing cluster nodes. */
int pb_cluster_nodes(struct pb_ctx *ctx);

#endif
