/*
 * probing.nodes - the nodes of the cluster, a row for each job that has ranks there.
 */
#include "base/clock.h"
#include "node/peers/peers.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(node, NAME, "", "machine that it is about")                                                  \
    X(address, NAME, "", "where it was reached")                                                   \
    X(state, NAME, "", "here, alive, suspect, gone or left")                                       \
    X(job, NAME, "", "where the ranks of the job meet, or its number")                             \
    X(script, NAME, "", "what the ranks run")                                                      \
    X(ranks, NAME, "", "ranks of the job that run on the node: 0-7")                               \
    X(world_size, INT, "", "ranks of the whole job")                                               \
    X(restarts, INT, "", "how often torchelastic has started it again")                            \
    X(version, NAME, "", "of probing")                                                             \
    X(clock_offset_ms, REAL, "ms", "the node's clock minus ours")                                  \
    X(clock_error_ms, REAL, "ms", "how far that may be off")                                       \
    X(heard_s, REAL, "s", "since the node was last heard")                                         \
    X(reason, NAME, "", "why it does not answer this node")                                        \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_probing_nodes = {
    PB_TABLE_SPEC("probing.nodes", "the nodes of the cluster, and the ranks that run there"),
    .fill = fill,
};

static void add(struct pb_node *n, struct pb_rows *rows, const struct pb_member *one, bool self,
                const struct pb_member_job *job)
{
    struct pb_row_cell *row = pb_rows_add(rows);

    pb_rows_text(rows, row, AT_node, one->host);
    pb_rows_text(rows, row, AT_address, *pb_member_address(one) ? pb_member_address(one) : NULL);
    pb_rows_text(rows, row, AT_state, self ? "here" : pb_member_state_name(one->state));
    pb_rows_text(rows, row, AT_version, one->software);
    if (job) {
        pb_rows_text(rows, row, AT_job, job->key);
        pb_rows_text(rows, row, AT_script, job->script[0] ? job->script : NULL);
        pb_rows_text(rows, row, AT_ranks, job->ranks);
        if (job->world)
            pb_rows_int(row, AT_world_size, job->world);
        pb_rows_int(row, AT_restarts, job->restarts);
    }
    if (one->error_ns && !self) {
        pb_rows_real(row, AT_clock_offset_ms, (double)one->offset_ns / 1e6);
        pb_rows_real(row, AT_clock_error_ms, (double)one->error_ns / 1e6);
    }
    if (one->heard_ns && !self)
        pb_rows_real(row, AT_heard_s, (double)(pb_clock_ns() - one->heard_ns) / 1e9);
    pb_rows_text(rows, row, AT_reason, one->reason[0] ? one->reason : NULL);
    pb_live_common(rows, row, n->host, 0, -1);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_peers_list list;

    (void)wanted;
    (void)err;
    if (pb_scope_is_node(scope)) {
        pb_peers_list(n->peers, &a, &list);
        for (size_t i = 0; i < list.n; i++) {
            bool self = i == 0 && !list.observer;

            for (size_t k = 0; k < list.v[i].njobs; k++)
                add(n, rows, &list.v[i], self, &list.v[i].jobs[k]);
            if (!list.v[i].njobs)
                add(n, rows, &list.v[i], self, NULL);
        }
    }
    pb_arena_finish(&a);
    return 0;
}
