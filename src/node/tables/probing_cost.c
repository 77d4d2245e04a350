/*
 * probing.cost - what the tool itself costs: the node, its samplers and history, each agent, and
 * the collector that works in the program's own threads.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/net/agent_socket.h"
#include "host/process/proc.h"
#include "node/peers/peers.h"
#include "node/profile/continuous.h"
#include "node/sample/sampler.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(what, NAME, "", "node, sql, archive, cluster, agent, torch, python.samples, a sampler")      \
    X(cpu_ms, REAL, "ms", "CPU time since it began; torch: of the program's")                      \
    X(rss_mb, REAL, "MB", "memory; of an agent its rings")                                         \
    X(bytes, INT, "B", "node: answered; cluster: sent and got; archive: on disk; agent: its rings")\
    X(rows, INT, "", "rows answered, sealed or written; stacks sampled")                           \
    X(queries, INT, "", "queries answered")                                                        \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_probing_cost = {
    PB_TABLE_SPEC("probing.cost", "what the tool itself costs: CPU, memory, bytes, rows"),
    .fill = fill,
};

enum { SAMPLERS_MAX = 64 };

static double ms_of(const struct timeval *tv)
{
    return (double)tv->tv_sec * 1e3 + (double)tv->tv_usec / 1e3;
}

static void add_node(struct pb_node *n, struct pb_rows *rows)
{
    struct pb_row_cell *row = pb_rows_add(rows);
    struct pb_proc_status st;
    struct rusage usage;

    pb_rows_text(rows, row, AT_what, "node");
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        pb_rows_real(row, AT_cpu_ms, ms_of(&usage.ru_utime) + ms_of(&usage.ru_stime));
    if (pb_proc_status(&st, getpid(), NULL) == 0)
        pb_rows_real(row, AT_rss_mb, (double)st.rss_kb / 1024);
    pb_rows_int(row, AT_bytes, (int64_t)atomic_load(&pb_sql_counts(n->sql)->bytes));
    pb_rows_int(row, AT_rows, (int64_t)atomic_load(&pb_sql_counts(n->sql)->rows));
    pb_rows_int(row, AT_queries, (int64_t)atomic_load(&pb_sql_counts(n->sql)->queries));
    pb_live_common(rows, row, n->host, getpid(), -1);
    row = pb_rows_add(rows);
    pb_rows_text(rows, row, AT_what, "sql");
    pb_rows_real(row, AT_rss_mb, (double)pb_sql_memory(n->sql) / (1 << 20));
    pb_live_common(rows, row, n->host, getpid(), -1);
}

static void add_parts(struct pb_node *n, struct pb_rows *rows)
{
    struct pb_sampler_status v[SAMPLERS_MAX];
    size_t count = n->samplers ? pb_samplers_status(n->samplers, v, SAMPLERS_MAX) : 0;
    struct pb_archive_status archive;
    struct pb_row_cell *row;

    for (size_t i = 0; i < count; i++) {
        row = pb_rows_add(rows);
        pb_rows_text(rows, row, AT_what, v[i].name);
        pb_rows_real(row, AT_cpu_ms, v[i].cpu_ms);
        pb_rows_int(row, AT_rows, (int64_t)v[i].rows);
        pb_live_common(rows, row, n->host, getpid(), -1);
    }
    if (pb_peers_attached(n->peers)) {
        struct pb_peers_cost peers;

        pb_peers_cost(n->peers, &peers);
        row = pb_rows_add(rows);
        pb_rows_text(rows, row, AT_what, "cluster");
        pb_rows_int(row, AT_bytes, (int64_t)(peers.bytes_in + peers.bytes_out));
        pb_rows_int(row, AT_rows, (int64_t)peers.exchanges);
        pb_live_common(rows, row, n->host, getpid(), -1);
    }
    if (!n->archive)
        return;
    pb_archive_status(n->archive, &archive);
    row = pb_rows_add(rows);
    pb_rows_text(rows, row, AT_what, "archive");
    pb_rows_int(row, AT_bytes, (int64_t)archive.bytes);
    pb_rows_int(row, AT_rows, (int64_t)archive.sealed_rows);
    pb_live_common(rows, row, n->host, getpid(), -1);
}

/* CPU time of the agent's own thread; below 0: not to be found. */
static double agent_cpu_ms(pid_t pid, struct pb_arena *a)
{
    pid_t tid = pb_agent_thread(pid, a);
    uint64_t runs, ns;

    return tid && pb_proc_schedstat(pid, tid, &runs, &ns) ? (double)ns / 1e6 : -1;
}

static void add_agent(struct pb_rows *rows, const struct pb_store *s, struct pb_arena *a)
{
    struct pb_row_cell *row = pb_rows_add(rows);
    double cpu = s->process.live ? agent_cpu_ms(s->process.pid, a) : -1;
    uint64_t bytes = 0, written = 0, first, next;

    for (size_t i = 0; i < s->nrings; i++) {
        pb_reader_range(&s->rings[i]->reader, &first, &next);
        bytes += s->rings[i]->reader.size;
        written += next;
    }
    pb_rows_text(rows, row, AT_what, "agent");
    if (cpu >= 0)
        pb_rows_real(row, AT_cpu_ms, cpu);
    pb_rows_real(row, AT_rss_mb, (double)bytes / (1 << 20));
    pb_rows_int(row, AT_bytes, (int64_t)bytes);
    pb_rows_int(row, AT_rows, (int64_t)written);
    pb_live_common(rows, row, s->host, s->process.pid, s->rank);
}

/* What the collector does in the threads of the program, by its own account. */
static void add_torch(struct pb_rows *rows, const struct pb_store *s, struct pb_arena *a)
{
    const char *ms = pb_store_value(s->status, "spent.torch", a);
    struct pb_row_cell *row = ms ? pb_rows_add(rows) : NULL;

    if (!row)
        return;
    pb_rows_text(rows, row, AT_what, "torch");
    pb_rows_real(row, AT_cpu_ms, strtod(ms, NULL));
    pb_live_common(rows, row, s->host, s->process.pid, s->rank);
}

/* Sampling of stacks, for each process. */
static void add_profiles(struct pb_rows *rows, struct pb_node *n, const struct pb_scope *scope,
                         struct pb_arena *a)
{
    size_t cap = pb_continuous_status(n->continuous, NULL, 0);
    struct pb_continuous_status *v = PB_NEW_N(a, struct pb_continuous_status, cap + 1);
    size_t count = pb_continuous_status(n->continuous, v, cap);

    for (size_t i = 0; i < count && i < cap; i++) {
        struct pb_row_cell *row;

        if (!pb_scope_has_id(scope, v[i].process))
            continue;
        row = pb_rows_add(rows);
        pb_rows_text(rows, row, AT_what, "python.samples");
        pb_rows_real(row, AT_cpu_ms, v[i].cpu_ms);
        pb_rows_int(row, AT_rows, (int64_t)v[i].samples);
        pb_live_common(rows, row, n->host, v[i].pid, v[i].rank);
    }
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_stores *stores = pb_discover_snapshot(n->discover, 100);
    struct pb_arena a = PB_ARENA_INIT;

    (void)wanted;
    (void)err;
    if (pb_scope_is_node(scope)) {
        add_node(n, rows);
        add_parts(n, rows);
    }
    for (size_t i = 0; i < stores->nstores; i++)
        if (pb_scope_has_id(scope, stores->stores[i]->process.id) &&
            !pb_store_value(stores->stores[i]->meta, "role", &a)) {
            add_agent(rows, stores->stores[i], &a);
            add_torch(rows, stores->stores[i], &a);
        }
    add_profiles(rows, n, scope, &a);
    pb_stores_unref(stores);
    pb_arena_finish(&a);
    return 0;
}
