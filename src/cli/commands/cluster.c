/*
 * probing cluster - the nodes of a job's machines as one.
 */
#include "cli/cluster/cluster.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client/nodelink.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "hosts", .type = PB_OPT_STR, .arg = "FILE", .help = "attach: hosts, one a line"},
    {.name = "slurm", .type = PB_OPT_STR, .arg = "JOB",
     .help = "attach: the nodes of a job of Slurm, started by srun where they are missing"},
    {.name = "ssh", .help = "attach: by ssh where a node is missing, also for a job of Slurm"},
    {.name = "no-start", .help = "attach: only nodes that are there; start none"},
    {.name = "name", .type = PB_OPT_STR, .arg = "NAME",
     .help = "attach: what the cluster is called (default: default); others are kept apart"},
    {.name = "listen", .letter = 'l', .type = PB_OPT_STR, .arg = "ADDRESS",
     .help = "attach: where this node answers the others (default: 0.0.0.0:7707 or behind)"},
    {.name = "observe", .help = "attach: ask the others, and do not be asked: open no port here"},
    {.name = "quiet", .letter = 'q', .help = "attach: say what went wrong and nothing else"},
    {.name = "stay", .help = "attach: do not return as long as the node runs"},
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "table|json", .help = "nodes: how to print them"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "ACTION", .help = "attach, nodes, detach; or a command for all: query, backtrace",
     .choices = "attach|nodes|detach", .required = true},
    {.name = "HOST", .help = "attach: HOST[:PORT], also as gpu[01-16]", .many = true},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_cluster = {
    .name = "cluster",
    .summary = "Look at all machines of a job as one",
    .details =
        "On a machine where ranks of a job run, `attach` needs no arguments: their environment\n"
        "(torchrun, Slurm, Kubernetes, MPI) and their connections tell where the others are.\n"
        "Where no node answers, one is started: by srun inside a job of Slurm, else by ssh\n"
        "without a password, which copies this very program there if need be. Nodes find each\n"
        "other from then on, and there is none that the others need. They share a token, yours\n"
        "or $PROBING_TOKEN, speak TLS with a key made of it, and answer nobody else.\n"
        "Then commands take --cluster, or ranks as targets: `probing rank:17 backtrace`. Behind\n"
        "the word cluster a command is for all: `probing cluster query SQL`. A plain `query`\n"
        "without a target covers the cluster as long as the node is attached.",
    .options = options,
    .positionals = positionals,
    .examples = "probing cluster attach             # the machines of the job that runs here\n"
                "probing cluster attach gpu[01-16]  # these\n"
                "probing cluster attach --slurm 4711\n"
                "probing cluster nodes              # who is there, with which ranks\n"
                "probing cluster query 'SELECT rank, max(step) FROM training_logs GROUP BY rank'\n"
                "probing rank:17 backtrace\n"
                "probing cluster detach\n",
    .target = PB_TARGET_OPTIONAL,
    .remote = true,
    .run = run,
};

static int detach(struct pb_ctx *ctx)
{
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_nodelink n;
    int rc;

    if (ctx->nargs > 1)
        return pb_err_set(&ctx->err, PB_USAGE, "cluster detach: unexpected '%s'", ctx->args[1]);
    if (ctx->remote)
        return pb_err_set(&ctx->err, PB_USAGE, "cluster detach is for the node of this machine");
    if (pb_nodelink_open(ctx, &n) < 0)
        return -1;
    rc = pb_nodelink_ask(ctx, &n, "POST", "/api/cluster", "{\"detach\":true}", &answer);
    if (rc == 0)
        pb_ctx_notice(ctx, strstr(answer.data, "true") ? "probing: this node has left its cluster"
                                                       : "probing: this node is in no cluster");
    pb_nodelink_close(&n);
    pb_buf_finish(&answer);
    return rc;
}

static int run(struct pb_ctx *ctx)
{
    const char *action = ctx->args[0];

    if (ctx->pid)
        return pb_err_set(&ctx->err, PB_USAGE, "cluster is about machines, not about process %d",
                          (int)ctx->pid);
    if (strcmp(action, "attach") == 0)
        return pb_cluster_attach(ctx);
    return strcmp(action, "nodes") == 0 ? pb_cluster_nodes(ctx) : detach(ctx);
}
