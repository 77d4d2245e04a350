/*
 * probing.agents - what is at work: the agents in processes and each of their collectors, the
 * node's samplers and history, and what could not be read, with the reason.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "node/profile/continuous.h"
#include "node/sample/sampler.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(process, NAME, "", "pid and start time: <pid>-<start>, of others with -<uid>")               \
    X(role, NAME, "", "agent: inside the process; node: outside")                                  \
    X(version, NAME, "", "of the agent or the node")                                               \
    X(collector, NAME, "", "what it does; agent or node: itself")                                  \
    X(state, NAME, "", "running, ended, ejected, killed; on, off, waiting, failed")                \
    X(reason, TEXT, "", "why, if there is something to say")                                       \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_probing_agents = {
    PB_TABLE_SPEC("probing.agents", "agents, collectors, samplers: what each does, and why not"),
    .fill = fill,
};

enum { SAMPLERS_MAX = 64 };

struct line {
    const char *process, *role, *version, *collector, *state, *reason;
    const char *host;
    pid_t pid;
    int64_t rank;
};

static void add(struct pb_rows *rows, const struct line *l)
{
    struct pb_row_cell *row = pb_rows_add(rows);

    pb_rows_text(rows, row, AT_process, l->process);
    pb_rows_text(rows, row, AT_role, l->role);
    pb_rows_text(rows, row, AT_version, l->version);
    pb_rows_text(rows, row, AT_collector, l->collector);
    pb_rows_text(rows, row, AT_state, l->state);
    pb_rows_text(rows, row, AT_reason, l->reason && *l->reason ? l->reason : NULL);
    pb_live_common(rows, row, l->host, l->pid, l->rank);
}

/* "collector.memory=off: because" and the like, a row each. */
static void add_collectors(struct pb_rows *rows, const struct pb_store *s, struct line l,
                           struct pb_arena *a)
{
    char *text = pb_arena_strdup(a, s->status), *line, *value, *colon;

    while ((line = strsep(&text, "\n"))) {
        value = strchr(line, '=');
        if (strncmp(line, "collector.", 10) != 0 || !value)
            continue;
        *value++ = '\0';
        colon = strstr(value, ": ");
        if (colon)
            *colon = '\0';
        l.collector = line + 10;
        l.state = s->process.live ? value : "ended";
        l.reason = colon ? colon + 2 : NULL;
        add(rows, &l);
    }
}

static void add_troubles(struct pb_rows *rows, const struct pb_store *s, struct line l,
                         struct pb_arena *a)
{
    char *text = pb_arena_strdup(a, s->troubles), *line, *colon;

    while ((line = strsep(&text, "\n"))) {
        colon = strstr(line, ": ");
        if (!colon)
            continue;
        *colon = '\0';
        l.collector = line;
        l.state = "failed";
        l.reason = colon + 2;
        add(rows, &l);
    }
}

static void add_store(struct pb_rows *rows, const struct pb_store *s, struct pb_arena *a)
{
    const char *said = pb_store_value(s->status, "agent.state", a), *how;
    bool killed;
    struct line l = {.process = s->process.id, .role = "agent", .host = s->host,
                     .pid = s->process.pid, .rank = s->rank};

    /* The folder of a node, ours or one that was: see add_node. */
    if (pb_store_value(s->meta, "role", a))
        return;

    l.version = pb_store_value(s->meta, "agent", a);
    l.reason = pb_store_value(s->status, "store.note", a);
    l.state = said ? said : "running";
    how = pb_store_end(s, a, &killed);
    if (!s->process.live && strcmp(l.state, "running") == 0)
        l.state = how && !killed ? "ended" : "killed";
    if (how && !s->process.live)
        l.reason = how;
    l.collector = "agent";
    add(rows, &l);
    l.reason = NULL;
    add_collectors(rows, s, l, a);
    add_troubles(rows, s, l, a);
}

static void add_node(struct pb_rows *rows, struct pb_node *n)
{
    struct pb_sampler_status v[SAMPLERS_MAX];
    size_t count = n->samplers ? pb_samplers_status(n->samplers, v, SAMPLERS_MAX) : 0;
    char id[PB_PROCESS_ID_MAX];
    struct line l = {.process = id, .role = "node", .version = pb_node_version(), .host = n->host,
                     .pid = getpid(), .rank = -1, .state = "running"};
    struct pb_archive_status archive;

    l.collector = "node";
    snprintf(id, sizeof id, "%d-%llu", (int)getpid(), (unsigned long long)pb_home_start_time(0));
    add(rows, &l);

    for (size_t i = 0; i < count; i++) {
        l.collector = v[i].name;
        l.state = v[i].state;
        l.reason = v[i].reason;
        add(rows, &l);
    }
    l.collector = "archive";
    l.state = "off";
    l.reason = "no data folder";
    if (n->archive) {
        pb_archive_status(n->archive, &archive);
        l.state = archive.reason[0] ? "failed" : n->opts.background ? "on" : "read only";
        if (!archive.reason[0] && archive.lost_rows)
            snprintf(archive.reason, sizeof archive.reason,
                     "%llu rows were overwritten before they could be kept",
                     (unsigned long long)archive.lost_rows);
        l.reason = archive.reason;
    }
    add(rows, &l);
    if (!n->archive || !archive.lake[0])
        return;
    l.collector = "lake";
    l.state = archive.lake_reason[0] ? "failed" : "on";
    l.reason = archive.lake_reason;
    add(rows, &l);
}

/* Whose stacks the node samples all the time. */
static void add_profiles(struct pb_rows *rows, struct pb_node *n, const struct pb_scope *scope,
                         struct pb_arena *a)
{
    size_t cap = pb_continuous_status(n->continuous, NULL, 0);
    struct pb_continuous_status *v = PB_NEW_N(a, struct pb_continuous_status, cap + 1);
    size_t count = pb_continuous_status(n->continuous, v, cap);

    for (size_t i = 0; i < count && i < cap; i++) {
        struct line l = {.process = v[i].process, .role = "node", .collector = "python.samples",
                         .state = v[i].state, .reason = v[i].reason, .host = n->host,
                         .pid = v[i].pid, .rank = v[i].rank};

        if (pb_scope_has_id(scope, v[i].process))
            add(rows, &l);
    }
}

/* Processes whose stacks could not be read when they were last asked for. */
static void add_unreadable(struct pb_rows *rows, struct pb_node *n, const struct pb_scope *scope,
                           struct pb_arena *a)
{
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, scope, false, a, &v);
    char why[160], id[PB_PROCESS_ID_MAX];

    for (size_t i = 0; i < count; i++) {
        struct line l = {.process = id, .role = "node", .collector = "stacks", .state = "failed",
                         .reason = why, .host = n->host, .pid = v[i].pid, .rank = -1};

        pb_stack_cache_trouble(n->stacks, v[i].pid, why, sizeof why);
        snprintf(id, sizeof id, "%d-%llu", (int)v[i].pid, (unsigned long long)v[i].start);
        if (why[0])
            add(rows, &l);
    }
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_stores *stores = pb_discover_snapshot(n->discover, 0);
    struct pb_arena a = PB_ARENA_INIT;

    (void)wanted;
    (void)err;
    for (size_t i = 0; i < stores->nstores; i++)
        if (pb_scope_has_id(scope, stores->stores[i]->process.id))
            add_store(rows, stores->stores[i], &a);
    if (pb_scope_is_node(scope))
        add_node(rows, n);
    add_profiles(rows, n, scope, &a);
    add_unreadable(rows, n, scope, &a);
    pb_stores_unref(stores);
    pb_arena_finish(&a);
    return 0;
}
