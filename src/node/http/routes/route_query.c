/*
 * POST /api/query - SQL in, rows out as they are made.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "host/text/json_write.h"
#include "node/global/global.h"
#include "node/http/conn.h"
#include "node/parts.h"
#include "node/peers/peers.h"
#include "node/peers/ranks.h"
#include "node/query/query.h"
#include "node/sql/elsewhere.h"

#define TIMEOUT_MAX_S 86400
/* Nodes that are named in a header, which has little room. */
#define NOTED_MAX 6

static void run(struct pb_request *rq);

const struct pb_route pb_route_query = {
    .method = "POST",
    .path = "/api/query",
    .doc = "SQL: {sql, target?, dead?, format?, max_rows?, timeout?}; over all nodes of a cluster: "
           "{cluster: true} or \"auto\"; {ranks?, job?}: those ranks, with cluster of all nodes",
    .run = run,
};

static const struct {
    const char *name, *type;
    enum pb_format format;
} formats[] = {
    {"rows", "application/x-ndjson", PB_FORMAT_ROWS},
    {"json", "application/json", PB_FORMAT_JSON},
    {"ndjson", "application/x-ndjson", PB_FORMAT_NDJSON},
    {"csv", "text/csv; charset=utf-8", PB_FORMAT_CSV},
    {"parquet", "application/vnd.apache.parquet", PB_FORMAT_PARQUET},
};

static int read_question(struct pb_request *rq, struct pb_query *q, const char **ret_type,
                         struct pb_err *err)
{
    const char *format = pb_json_str(rq->body, "format", "json");
    double timeout = pb_json_number(rq->body, "timeout", 0);
    int64_t max_rows = pb_json_whole(rq->body, "max_rows", 0);

    q->sql = pb_json_str(rq->body, "sql", NULL);
    if (!q->sql)
        return pb_err_set(err, PB_USAGE, "no \"sql\" in the body");
    /* NaN is refused by the first comparison as well. */
    if (!(timeout >= 0 && timeout <= TIMEOUT_MAX_S) || max_rows < 0)
        return pb_err_set(err, PB_USAGE, "timeout is 0 to %d seconds, max_rows not negative",
                          TIMEOUT_MAX_S);
    q->timeout_ms = (int)(timeout * 1000);
    q->max_rows = (uint64_t)max_rows;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(format, formats[i].name) == 0) {
            q->format = formats[i].format;
            *ret_type = formats[i].type;
            return 0;
        }
    return pb_err_set(err, PB_USAGE, "format '%.20s' is none of rows, json, ndjson, csv, parquet",
                      format);
}

/* Rows come from the thread of the request; that the time is up may be told by another. */
struct answering {
    struct pb_request *rq;
    pthread_mutex_t lock;
    bool late; /* it was told; nothing more goes out */
};

static int sink(const void *data, size_t len, void *arg)
{
    struct answering *a = arg;
    int rc;

    pthread_mutex_lock(&a->lock);
    rc = a->late ? -1 : pb_reply_write(a->rq, data, len);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

/* Waits for nobody. Behind rows that are out already the answer is broken off. */
static bool late(const struct pb_err *err, void *arg)
{
    struct answering *a = arg;
    struct pb_conn *c = a->rq->conn;

    if (pthread_mutex_trylock(&a->lock) != 0)
        return false; /* rows are on their way */
    a->late = true;
    if (!c->reply.sent)
        pb_conn_refuse(c, 504, pb_reply_code(err->code), err->msg, NULL);
    else
        pb_conn_break(c, err);
    c->reply.sent = c->reply.ended = c->close = true;
    atomic_store(&c->gone, true);
    shutdown(c->io.fd, SHUT_WR);
    pthread_mutex_unlock(&a->lock);
    return true;
}

/* How many processes it was about, where no target said so. */
static void count_processes(struct pb_request *rq, const struct pb_scope *scope, const char *sql,
                            int64_t *living, int64_t *ended)
{
    struct pb_node_count c;

    *living = *ended = -1;
    if (!pb_scope_is_node(scope) || !pb_query_reads_tables(sql))
        return;
    pb_node_count(rq->node, scope, rq->arena, &c);
    *living = (int64_t)c.living;
    *ended = scope->all ? (int64_t)c.ended : -1;
}

static void add_notices(struct pb_buf *b, struct pb_buf *lines, struct pb_arena *a)
{
    char *rest = lines->data ? pb_arena_strdup(a, lines->data) : NULL, *line;

    pb_json_key(b, "notices");
    pb_buf_putc(b, '[');
    while ((line = strsep(&rest, "\n"))) {
        if (!*line)
            continue;
        pb_json_comma(b);
        pb_json_string(b, line);
    }
    pb_buf_putc(b, ']');
}

/* Lines as one, with "; " between. */
static const char *on_one_line(const struct pb_buf *lines, struct pb_arena *a)
{
    char *rest = pb_arena_strdup(a, lines->data), *line;
    struct pb_buf b = PB_BUF_INIT;

    while ((line = strsep(&rest, "\n")))
        if (*line)
            pb_buf_printf(&b, "%s%s", b.len ? "; " : "", line);
    rest = pb_arena_strdup(a, b.data ? b.data : "");
    pb_buf_finish(&b);
    return rest;
}

static void note_count(struct pb_request *rq, const char *name, int64_t n)
{
    char number[24];

    snprintf(number, sizeof number, "%lld", (long long)n);
    if (n >= 0)
        pb_reply_note(rq, name, number);
}

/* Who answered, of a cluster. */
static void note_nodes(struct pb_request *rq, const struct pb_global_nodes *nodes)
{
    struct pb_buf b = PB_BUF_INIT;

    if (!nodes->n)
        return;
    pb_global_json(&b, nodes, NOTED_MAX);
    pb_reply_note(rq, "X-Probing-Coverage", b.data);
    pb_buf_finish(&b);
}

/* Rows end with a line that says so; other formats have no room for that but in a header. */
static void finish(struct pb_request *rq, const struct pb_query *q, struct pb_sql_done *done,
                   const struct pb_global_nodes *nodes)
{
    struct pb_buf b = PB_BUF_INIT;
    int64_t living, ended;
    char number[24];

    if (nodes->n)
        living = ended = -1;
    else
        count_processes(rq, q->scope, q->sql, &living, &ended);
    if (q->format == PB_FORMAT_ROWS) {
        pb_buf_puts(&b, "{\"done\":{");
        pb_json_key(&b, "rows");
        pb_json_int(&b, (int64_t)done->rows);
        pb_json_key(&b, "truncated");
        pb_json_bool(&b, done->truncated);
        if (done->truncated && done->left_out != PB_SQL_UNKNOWN) {
            pb_json_key(&b, "left_out");
            pb_json_int(&b, (int64_t)done->left_out);
        }
        pb_json_key(&b, "ms");
        pb_buf_printf(&b, "%.3f", done->ms);
        if (living >= 0) {
            pb_json_key(&b, "processes");
            pb_json_int(&b, living);
        }
        if (ended >= 0) {
            pb_json_key(&b, "ended");
            pb_json_int(&b, ended);
        }
        if (nodes->n) {
            pb_json_key(&b, "coverage");
            pb_global_json(&b, nodes, SIZE_MAX);
        }
        add_notices(&b, &done->notices, rq->arena);
        pb_buf_puts(&b, "}}\n");
        pb_reply_write(rq, b.data, b.len);
        pb_buf_finish(&b);
    } else {
        snprintf(number, sizeof number, "%llu", (unsigned long long)done->rows);
        pb_reply_note(rq, "X-Probing-Rows", number);
        pb_reply_note(rq, "X-Probing-Truncated", done->truncated ? "true" : "false");
        if (done->truncated && done->left_out != PB_SQL_UNKNOWN) {
            snprintf(number, sizeof number, "%llu", (unsigned long long)done->left_out);
            pb_reply_note(rq, "X-Probing-Left-Out", number);
        }
        snprintf(number, sizeof number, "%.3f", done->ms);
        pb_reply_note(rq, "X-Probing-Ms", number);
        note_count(rq, "X-Probing-Processes", living);
        note_count(rq, "X-Probing-Ended", ended);
        note_nodes(rq, nodes);
        if (done->notices.len)
            pb_reply_note(rq, "X-Probing-Notices", on_one_line(&done->notices, rq->arena));
    }
    pb_reply_end(rq);
}

/* Before the first byte is out it is an answer of its own; behind that, a last line or a break. */
static void fail(struct pb_request *rq, const struct pb_query *q, const struct pb_sql_error *e)
{
    struct pb_buf b = PB_BUF_INIT;

    if (!pb_reply_sent(rq)) {
        pb_reply_error(rq, &e->err, e->at, e->nearest);
        return;
    }
    if (q->format != PB_FORMAT_ROWS) {
        pb_reply_break(rq, &e->err, e->at, e->nearest);
        return;
    }
    pb_reply_error_json(&b, pb_reply_code(e->err.code), e->err.msg, e->at, e->nearest);
    pb_buf_putc(&b, '\n');
    pb_reply_write(rq, b.data, b.len);
    pb_reply_end(rq);
    pb_buf_finish(&b);
}

static bool is_in_cluster(struct pb_peers *peers)
{
    if (peers)
        pb_peers_settle(peers);
    return pb_peers_attached(peers);
}

/* Is it for all nodes? "auto": when this one is in a cluster and no process was named. */
static bool is_global(struct pb_request *rq)
{
    const struct pb_json *asked = pb_json_get(rq->body, "cluster");

    if (asked && asked->type == PB_J_STRING && strcmp(asked->s, "auto") == 0)
        return !pb_request_target(rq) && is_in_cluster(rq->node->peers);
    return pb_json_flag(rq->body, "cluster", false);
}

/* Over all nodes: whoever may not see all processes of one may not see those of the others. */
static int run_global(struct pb_request *rq, const struct pb_query *q, struct pb_sql_done *done,
                      struct pb_global_nodes *nodes, struct pb_sql_error *err)
{
    struct pb_global_scope w = {.ranks = pb_json_str(rq->body, "ranks", NULL),
                                .job = pb_json_str(rq->body, "job", NULL),
                                .dead = pb_json_flag(rq->body, "dead", false)};
    const char *missing;

    if (rq->reach || rq->right < PB_RIGHT_LOOK)
        return pb_err_set(&err->err, PB_DENIED, "this token does not reach other nodes");
    if (pb_global_query(rq->node, &w, q, rq->arena, done, nodes, err) < 0)
        return -1;
    missing = pb_global_missing(nodes, rq->arena);
    if (missing)
        pb_buf_printf(&done->notices, "%s\n", missing);
    if (nodes->twice)
        pb_buf_printf(&done->notices, "claimed by several nodes, all are shown: %s\n",
                      nodes->twice);
    return 0;
}

/* What the body names: processes, or ranks, of which none may be here. */
static int read_scope(struct pb_request *rq, bool global, struct pb_scope *ret, struct pb_err *err)
{
    const char *ranks = pb_json_str(rq->body, "ranks", NULL), *target = NULL;
    const char *job = pb_json_str(rq->body, "job", NULL);
    int rc;

    if (global || (!ranks && !job))
        return pb_request_scope(rq, ret, err);
    if (pb_ranks_target(rq->node->ranks, ranks, job, rq->arena, &target, err) < 0)
        return -1;
    rc = pb_request_scope_of(rq, target, ret, err);
    if (!target)
        ret->all = false; /* of no process */
    return rc;
}

/* A node that asks for its part of a statement says what columns the tables of users have. */
static void read_columns(struct pb_request *rq, struct pb_query *q)
{
    const struct pb_json *columns = pb_json_get(rq->body, "tables");

    if (rq->reach || rq->right < PB_RIGHT_LOOK)
        return;
    q->types = pb_json_str(rq->body, "types", NULL);
    pb_sql_learn(rq->node->sql, columns);
    if (pb_json_flag(rq->body, "whole", false))
        q->columns = columns;
}

static void run(struct pb_request *rq)
{
    struct pb_scope scope;
    struct answering a = {.rq = rq, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct pb_query q = {
        .scope = &scope, .cancelled = rq->gone, .sink = sink, .late = late, .arg = &a};
    struct pb_sql_error err = {.at = -1};
    struct pb_global_nodes nodes = {0};
    struct pb_sql_done done = {0};
    const char *type = NULL;
    bool global = is_global(rq);
    int rc;

    if (read_question(rq, &q, &type, &err.err) < 0 ||
        read_scope(rq, global, &scope, &err.err) < 0) {
        pb_reply_error(rq, &err.err, -1, NULL);
        return;
    }
    if (scope.all && pb_query_reads_tables(q.sql))
        pb_node_scope_all(rq->node, pb_json_flag(rq->body, "dead", false), rq->arena, &scope);
    read_columns(rq, &q);
    pb_reply_begin(rq, 200, type);
    rc = global ? run_global(rq, &q, &done, &nodes, &err)
                : pb_query_run(rq->node, &q, pb_json_flag(rq->body, "quiet", false), &done, &err);
    if (rc == 0)
        finish(rq, &q, &done, &nodes);
    else if (!a.late)
        fail(rq, &q, &err);
    pb_buf_finish(&done.notices);
}
