/* SQL over all nodes: their answers as files, and the statement over those. */
#include <string.h>

#include "base/clock.h"
#include "node/global/pieces.h"
#include "node/sql/text/text.h"

#define NS_PER_MS 1000000ull
/* Of the time of a question, what is kept for putting the answers together. */
#define MERGE_SHARE 5

static int refuse(struct pb_gathering *g, struct pb_err *err)
{
    uint64_t whole = 0, of = 0, estimate;
    const char *table = g->plan.parts[0].table;

    for (size_t i = 0; i < g->npieces; i++) {
        whole += g->pieces[i].bytes;
        of += g->pieces[i].bytes > 0;
    }
    estimate = of ? whole / of * g->npieces : whole;
    return pb_err_set(err, PB_FAIL,
                      "refused: this statement needs the rows themselves of %.60s from %zu node%s, "
                      "about %llu MB or more, and %llu MB are permitted (cluster.max_mb). Fewer "
                      "columns, a WHERE, or aggregates that nodes can compute (count, sum, min, "
                      "max, avg) need less", table, g->nodes->asked,
                      g->nodes->asked == 1 ? "" : "s",
                      (unsigned long long)((estimate > g->max ? estimate : g->max) >> 20),
                      (unsigned long long)(g->max >> 20));
}

/* The asking side's own sink, and whether something has gone there. */
struct passing {
    const struct pb_query *to;
    bool began;
};

static int pass_on(const void *data, size_t len, void *arg)
{
    struct passing *p = arg;

    p->began = true;
    return p->to->sink(data, len, p->to->arg);
}

static bool pass_late(const struct pb_err *err, void *arg)
{
    struct passing *p = arg;

    return p->to->late(err, p->to->arg);
}

static int merge_once(struct pb_gathering *g, struct passing *p, struct pb_sql_done *done,
                      struct pb_sql_error *err)
{
    struct pb_global_plan *plan = &g->plan;
    size_t n = plan->nparts + plan->nviews;
    const char *(*views)[2] = pb_arena_alloc(g->arena, (n + 1) * sizeof *views);
    struct pb_sql_gathered gathered = {.views = views, .nviews = n, .titles = plan->titles};
    struct pb_query q = *g->q;
    uint64_t spent = (pb_clock_ns() - g->begun_ns) / NS_PER_MS;
    static const struct pb_scope all = {.all = true};

    for (size_t i = 0; i < plan->nparts; i++) {
        views[i][0] = plan->parts[i].name;
        views[i][1] = pb_pieces_view(g, &plan->parts[i]);
        if (!views[i][1]) {
            const char *missing = pb_global_missing(g->nodes, g->arena);

            return pb_err_set(&err->err, PB_FAIL, "no table '%s' at any node%s%s",
                              plan->parts[i].table, missing ? "; " : "", missing ? missing : "");
        }
    }
    for (size_t i = 0; i < plan->nviews; i++) {
        views[plan->nparts + i][0] = plan->views[i].name;
        views[plan->nparts + i][1] = plan->views[i].sql;
    }
    q.sql = plan->sql;
    q.gathered = &gathered;
    q.scope = &all;
    q.sink = pass_on;
    q.late = g->q->late ? pass_late : NULL;
    q.arg = p;
    q.timeout_ms = q.timeout_ms > (int)spent ? q.timeout_ms - (int)spent : 1;
    if (pb_query_run(g->n, &q, true, done, err) == 0)
        return 0;
    err->at = -1; /* a place in another text */
    return -1;
}

static int merge(struct pb_gathering *g, struct pb_sql_done *done, struct pb_sql_error *err)
{
    struct passing p = {.to = g->q};
    int rc = merge_once(g, &p, done, err);

    if (rc == 0 || p.began || err->err.code == PB_TIMEOUT || !pb_pieces_drop_unreadable(g))
        return rc;
    pb_buf_finish(&done->notices);
    *done = (struct pb_sql_done){0};
    *err = (struct pb_sql_error){.at = -1};
    return merge_once(g, &p, done, err);
}

static int none_answered(struct pb_gathering *g, struct pb_err *err)
{
    const char *said = pb_global_missing(g->nodes, g->arena);
    bool late = false;

    for (size_t i = 0; i < g->nodes->n; i++)
        late |= g->nodes->v[i].asked && g->nodes->v[i].why &&
                strstr(g->nodes->v[i].why, "time") != NULL;
    return pb_err_set(err, late ? PB_TIMEOUT : PB_NO_TARGET, "%s", said ? said : "nobody answered");
}

/* Settings, and what the engine says of itself, are this node's. */
static bool is_own(const char *sql)
{
    static const char *const words[] = {"set", "show", "describe", "desc", "explain", "reset"};
    struct pb_sql_token t = pb_sql_peek(sql, strlen(sql), 0);

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (pb_sql_is(sql, t, words[i]))
            return true;
    return !pb_query_reads_tables(sql);
}

static int run_here(struct pb_gathering *g, struct pb_sql_done *done, struct pb_sql_error *err)
{
    *g->nodes = (struct pb_global_nodes){0};
    return pb_query_run(g->n, g->q, false, done, err);
}

static int check_single(const char *sql, struct pb_err *err)
{
    size_t pos = 0, at, n = 0;

    while (pb_sql_statement(sql, strlen(sql), &pos, &at) > 0)
        n++;
    return n > 1 ? pb_err_set(err, PB_USAGE, "one statement at a time over a cluster") : 0;
}

/* Does the planner not know a table or a column? Others may. */
static bool is_unknown_here(const struct pb_err *err)
{
    return strncmp(err->msg, "no table '", 10) == 0 || strncmp(err->msg, "no column '", 11) == 0;
}

/* Plans it; where the columns are others elsewhere, once more with those. */
static int make_plan(struct pb_gathering *g, struct pb_buf *notices, struct pb_sql_error *err)
{
    if (pb_sql_plan_global(g->n->sql, g->q, g->arena, &g->plan, notices, err) == 0)
        return 0;
    if (!is_unknown_here(&err->err) || !pb_global_learn(g))
        return -1;
    pb_buf_clear(notices);
    return pb_sql_plan_global(g->n->sql, g->q, g->arena, &g->plan, notices, err);
}

/* Asks; when columns were others than was thought, once more with what has been learnt. */
static int gather(struct pb_gathering *g, struct pb_buf *notices, struct pb_sql_error *err)
{
    if (pb_pieces_ask(g, &err->err) < 0)
        return -1;
    if (!g->others || !pb_global_learn(g))
        return 0;
    pb_pieces_drop(g);
    g->npieces = 0;
    g->bytes = 0;
    pb_buf_clear(notices);
    return pb_global_choose(g->n, g->scope, g->arena, g->nodes, &err->err) < 0 ||
                   pb_sql_plan_global(g->n->sql, g->q, g->arena, &g->plan, notices, err) < 0
               ? -1
               : pb_pieces_ask(g, &err->err);
}

int pb_global_query(struct pb_node *n, const struct pb_global_scope *w, const struct pb_query *q,
                    struct pb_arena *a, struct pb_sql_done *done, struct pb_global_nodes *nodes,
                    struct pb_sql_error *err)
{
    struct pb_gathering g = {.n = n, .scope = w, .arena = a, .nodes = nodes,
                          .begun_ns = pb_clock_ns()};
    struct pb_query own = *q;
    struct pb_buf notices = PB_BUF_INIT;
    int64_t timeout_ms = q->timeout_ms;
    char *sql = pb_arena_strdup(a, q->sql);
    size_t pos = 0, at = 0, len;
    int rc = -1;

    g.q = &own;
    *err = (struct pb_sql_error){.at = -1};
    *done = (struct pb_sql_done){0};
    if (pb_global_choose(n, w, a, nodes, &err->err) < 0 || check_single(sql, &err->err) < 0)
        return -1;
    pb_sql_plain_blanks(sql, strlen(sql));
    len = pb_sql_statement(sql, strlen(sql), &pos, &at);
    own.sql = pb_arena_strndup(a, sql + at, len);
    if (is_own(own.sql))
        return run_here(&g, done, err);
    if (timeout_ms <= 0)
        timeout_ms = pb_node_setting(n, PB_SET_QUERY_TIMEOUT);
    own.timeout_ms = (int)timeout_ms;
    g.max = (uint64_t)pb_node_setting(n, PB_SET_CLUSTER_MAX_MB) << 20;
    g.deadline_ns = g.begun_ns + (uint64_t)(timeout_ms - timeout_ms / MERGE_SHARE) * NS_PER_MS;
    if (make_plan(&g, &notices, err) < 0)
        goto out;
    if (g.plan.local) {
        rc = run_here(&g, done, err);
        goto out;
    }
    if (gather(&g, &notices, err) == 0) {
        if (g.too_much)
            refuse(&g, &err->err);
        else if (!nodes->answered)
            none_answered(&g, &err->err);
        else
            rc = merge(&g, done, err);
    }
    pb_pieces_put_notices(&g, &notices);
    pb_pieces_drop(&g);
out:
    if (notices.len)
        pb_buf_add(&done->notices, notices.data, notices.len);
    pb_buf_finish(&notices);
    return rc;
}
