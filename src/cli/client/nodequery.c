#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/client/nodelink_internal.h"
#include "host/text/json_write.h"
#include "node/query/query.h"

/* What a node may take beyond the time that the query has: noticing, and answering. */
#define SLACK_MS 2000
#define ERROR_BODY_MAX (64 << 10)
#define TRIES 3

/* How an answer is taken apart while it arrives. */
struct taking {
    struct pb_ctx *ctx;
    const struct pb_question *q;
    struct pb_answer *answer;
    struct pb_http_client *http; /* NULL for a node in this process */
    bool lines; /* the answer is JSON lines */
    bool began; /* something of it has arrived */
    bool ended; /* "done" or "error" was there */
    bool failed;
    struct pb_buf line; /* the beginning of one */
    struct pb_buf held; /* what may be the text of an error */
};

static void notice(struct pb_ctx *ctx, const char *text)
{
    pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s", text));
}

static void take_coverage(struct taking *t, const struct pb_json *coverage)
{
    const struct pb_json *missing = pb_json_get(coverage, "missing");

    t->answer->nodes = pb_json_whole(coverage, "answered", 0);
    t->answer->bytes = (uint64_t)pb_json_whole(coverage, "bytes", 0);
    t->answer->partial = (missing && missing->type == PB_J_ARRAY && missing->n > 0) ||
                         pb_json_get(coverage, "ranks_missing");
}

static void take_done(struct taking *t, const struct pb_json *done)
{
    const struct pb_json *notices = pb_json_get(done, "notices");

    t->answer->rows = (uint64_t)pb_json_whole(done, "rows", 0);
    t->answer->truncated = pb_json_flag(done, "truncated", false);
    t->answer->left_out = (uint64_t)pb_json_whole(done, "left_out", -1);
    t->answer->ms = pb_json_number(done, "ms", 0);
    t->answer->living = pb_json_whole(done, "processes", -1);
    t->answer->ended = pb_json_whole(done, "ended", -1);
    take_coverage(t, pb_json_get(done, "coverage"));
    if (t->q->silent)
        return;
    for (size_t i = 0; notices && notices->type == PB_J_ARRAY && i < notices->n; i++)
        if (notices->items[i].type == PB_J_STRING)
            notice(t->ctx, notices->items[i].s);
}

/* Rows are arrays and columns are for the sink; the rest is about the answer itself. */
static int take_line(struct taking *t, const char *line, size_t len)
{
    struct pb_json body;

    if (len < 8 || (memcmp(line, "{\"done\"", 7) != 0 && memcmp(line, "{\"error\"", 8) != 0))
        return len ? t->q->sink(line, len, t->q->arg) : 0;
    if (pb_json_parse(&t->ctx->arena, line, len, &body, &t->ctx->err) < 0)
        return -1;
    t->ended = true;
    if (pb_json_get(&body, "done")) {
        take_done(t, pb_json_get(&body, "done"));
        return 0;
    }
    t->failed = true;
    pb_nodelink_error(t->ctx, &body, 0, t->q->sql);
    return -1;
}

static int take(const void *data, size_t len, void *arg)
{
    struct taking *t = arg;
    const char *p = data, *end;

    if (!t->lines)
        return t->q->sink(data, len, t->q->arg);
    while (len && (end = memchr(p, '\n', len))) {
        size_t n = (size_t)(end - p);
        int rc;

        if (t->line.len) {
            pb_buf_add(&t->line, p, n);
            rc = take_line(t, t->line.data, t->line.len);
            pb_buf_clear(&t->line);
        } else {
            rc = take_line(t, p, n);
        }
        if (rc)
            return rc;
        p += n + 1;
        len -= n + 1;
    }
    pb_buf_add(&t->line, p, len);
    return 0;
}

/*
 * Rows come as a stream. An answer of a length that is known beforehand may be an error: it is
 * held until its status is known.
 */
static int take_body(const void *data, size_t len, void *arg)
{
    struct taking *t = arg;
    const char *length = pb_http_answered(t->http, "Content-Length");

    t->began = true;
    if (!length || strtoul(length, NULL, 10) > ERROR_BODY_MAX)
        return take(data, len, t);
    pb_buf_add(&t->held, data, len);
    return 0;
}

static size_t trimmed(const char *s)
{
    size_t len = strlen(s);

    while (len && s[len - 1] == ' ')
        len--;
    return len;
}

/* Formats that have no room for it say in headers what "done" says in lines. */
static void take_headers(struct taking *t)
{
    const char *rows = pb_http_answered(t->http, "X-Probing-Rows");
    const char *cut = pb_http_answered(t->http, "X-Probing-Truncated");
    const char *left = pb_http_answered(t->http, "X-Probing-Left-Out");
    const char *ms = pb_http_answered(t->http, "X-Probing-Ms");
    const char *said = pb_http_answered(t->http, "X-Probing-Notices");
    const char *living = pb_http_answered(t->http, "X-Probing-Processes");
    const char *ended = pb_http_answered(t->http, "X-Probing-Ended");
    const char *coverage = pb_http_answered(t->http, "X-Probing-Coverage");
    struct pb_json body;

    t->answer->rows = rows ? strtoull(rows, NULL, 10) : 0;
    t->answer->truncated = cut && strcmp(cut, "true") == 0;
    t->answer->left_out = left ? strtoull(left, NULL, 10) : PB_SQL_UNKNOWN;
    t->answer->ms = ms ? strtod(ms, NULL) : 0;
    t->answer->living = living ? strtoll(living, NULL, 10) : -1;
    t->answer->ended = ended ? strtoll(ended, NULL, 10) : -1;
    if (coverage && pb_json_parse(&t->ctx->arena, coverage, strlen(coverage), &body, NULL) == 0)
        take_coverage(t, &body);
    if (said && *said)
        notice(t->ctx, pb_arena_strndup(&t->ctx->arena, said, trimmed(said)));
}

static void write_question(struct pb_ctx *ctx, const struct pb_question *q, struct pb_buf *body)
{
    pb_buf_putc(body, '{');
    pb_json_key(body, "sql");
    pb_json_string(body, q->sql);
    pb_json_key(body, "format");
    pb_json_string(body, q->format);
    if (ctx->scope) {
        pb_json_key(body, "target");
        pb_json_string(body, ctx->scope);
    }
    if (q->cluster) {
        pb_json_key(body, "cluster");
        pb_buf_puts(body, q->cluster);
    }
    if (ctx->ranks) {
        pb_json_key(body, "ranks");
        pb_json_string(body, ctx->ranks);
    }
    if (ctx->of_job) {
        pb_json_key(body, "job");
        pb_json_string(body, ctx->of_job);
    }
    if (q->quiet) {
        pb_json_key(body, "quiet");
        pb_json_bool(body, true);
    }
    if (!q->living) {
        pb_json_key(body, "dead");
        pb_json_bool(body, true);
    }
    if (q->max_rows) {
        pb_json_key(body, "max_rows");
        pb_json_int(body, (int64_t)q->max_rows);
    }
    if (q->timeout_ms) {
        pb_json_key(body, "timeout");
        pb_buf_printf(body, "%.3f", q->timeout_ms / 1000.0);
    }
    pb_buf_putc(body, '}');
}

/*
 * The server died, perhaps of another's question. Nothing has been answered yet, so the next one
 * may do it, or refuse what killed the last. False when there is no point in trying again.
 */
static bool ask_another(struct pb_ctx *ctx, struct pb_nodelink *n, struct taking *t,
                        const struct pb_err *err)
{
    struct timespec moment = {.tv_nsec = 20000000};

    if (t->began || err->code != PB_FAIL || atomic_load(&pb_nodelink_cancelled))
        return false;
    nanosleep(&moment, NULL);
    pb_nodelink_close(n);
    if (pb_nodelink_open(ctx, n) < 0)
        return false;
    t->http = n->http;
    return true;
}

static int query_by_http(struct pb_ctx *ctx, struct pb_nodelink *n, const struct pb_question *q,
                         struct taking *t)
{
    struct pb_buf body = PB_BUF_INIT;
    struct pb_http_request r = {
        .method = "POST", .path = "/api/query", .type = "application/json",
        .timeout_ms = q->timeout_ms ? q->timeout_ms + SLACK_MS : 0,
        .cancelled = &pb_nodelink_cancelled,
    };
    struct pb_err err = {0};
    int status = 0, rc;

    write_question(ctx, q, &body);
    r.body = body.data;
    r.body_len = body.len;
    for (int tries = 0;; tries++) {
        rc = pb_http_ask(n->http, &r, take_body, t, &status, &err);
        if (rc == 0 || tries == TRIES || !ask_another(ctx, n, t, &err))
            break;
        err = (struct pb_err){0};
    }
    pb_buf_finish(&body);
    if (rc == 0 && status == 200 && t->held.len)
        take(t->held.data, t->held.len, t);
    if (t->failed || ctx->err.code != PB_OK)
        return -1;
    if (rc < 0) {
        const char *words = pb_http_final_error(n->http, &ctx->arena);

        return words ? pb_nodelink_refused(ctx, 200, words, strlen(words), q->sql)
                     : pb_nodelink_broken(ctx, n, &err);
    }
    if (status != 200)
        return pb_nodelink_refused(ctx, status, t->held.data, t->held.len, q->sql);
    if (t->lines && !t->ended)
        return pb_err_set(&ctx->err, PB_FAIL, "the node broke off its answer");
    if (!t->lines)
        take_headers(t);
    return 0;
}

static enum pb_format format_of(const char *name)
{
    static const char *const names[] = {
        [PB_FORMAT_ROWS] = "rows", [PB_FORMAT_JSON] = "json",       [PB_FORMAT_NDJSON] = "ndjson",
        [PB_FORMAT_CSV] = "csv",   [PB_FORMAT_PARQUET] = "parquet",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return (enum pb_format)i;
    return PB_FORMAT_ROWS;
}

static int query_here(struct pb_ctx *ctx, struct pb_nodelink *n, const struct pb_question *q,
                      struct taking *t)
{
    struct pb_scope scope;
    struct pb_query query = {
        .sql = q->sql, .scope = &scope, .format = format_of(q->format), .max_rows = q->max_rows,
        .timeout_ms = q->timeout_ms, .cancelled = &pb_nodelink_cancelled, .sink = take, .arg = t,
    };
    struct pb_sql_done done = {0};
    struct pb_sql_error err = {.at = -1};
    char *lines, *text;
    int rc;

    if (pb_node_scope(n->node, ctx->scope, &ctx->arena, &scope, &ctx->err) < 0)
        return -1;
    rc = pb_query_run(n->node, &query, q->quiet, &done, &err);
    *t->answer = (struct pb_answer){.rows = done.rows, .truncated = done.truncated,
                                    .left_out = done.left_out, .ms = done.ms, .living = -1,
                                    .ended = -1};
    lines = done.notices.data ? pb_arena_strdup(&ctx->arena, done.notices.data) : NULL;
    while (lines && (text = strsep(&lines, "\n")))
        if (*text)
            notice(ctx, text);
    pb_buf_finish(&done.notices);
    if (rc < 0 && ctx->err.code == PB_OK)
        return pb_nodelink_fail(ctx, err.err.code, err.err.msg, err.nearest, q->sql, err.at);
    return rc;
}

/* The members of the cluster, as this machine's node knows them; NULL when it knows none. */
static const struct pb_json *read_members(struct pb_ctx *ctx, struct pb_nodelink *n)
{
    struct pb_json *told = PB_NEW(&ctx->arena, struct pb_json);
    struct pb_buf answer = PB_BUF_INIT;
    const struct pb_json *v = NULL;

    if (pb_nodelink_ask(ctx, n, "GET", "/api/cluster", NULL, &answer) == 0 &&
        pb_json_parse(&ctx->arena, answer.data ? answer.data : "", answer.len, told, NULL) == 0)
        v = pb_json_get(told, "members");
    pb_buf_finish(&answer);
    return v && v->type == PB_J_ARRAY ? v : NULL;
}

/* Opens a link to a member that answers, instead of this machine's node: its address, or NULL. */
static const char *open_member(struct pb_ctx *ctx, struct pb_nodelink *n, const struct pb_json *v)
{
    for (size_t i = 0; v && i < v->n; i++) {
        const char *address = pb_json_str(&v->items[i], "address", "");

        if (pb_json_flag(&v->items[i], "self", false) || !*address ||
            strcmp(pb_json_str(&v->items[i], "state", ""), "alive") != 0)
            continue;
        ctx->remote = address;
        if (pb_nodelink_open(ctx, n) == 0)
            return address;
        pb_nodelink_close(n);
        ctx->err = (struct pb_err){0};
    }
    ctx->remote = NULL;
    return NULL;
}

/* A machine with the program alone has no SQL engine: what is about all nodes any can answer. */
static bool goes_to_member(struct pb_ctx *ctx, struct pb_nodelink *n, const struct pb_question *q)
{
    static const char why[] = PB_SQL_MISSING;
    const struct pb_json *members;
    struct pb_err was = ctx->err;
    const char *note = ctx->note, *address;

    if (!q->cluster || n->remote || n->node || strncmp(was.msg, why, sizeof why - 1) != 0)
        return false;
    ctx->err = (struct pb_err){0};
    pb_nodelink_close(n);
    members = pb_nodelink_open(ctx, n) == 0 ? read_members(ctx, n) : NULL;
    if (members)
        pb_nodelink_cluster_token(ctx, n);
    pb_nodelink_close(n);
    address = open_member(ctx, n, members);
    if (!address) {
        ctx->err = was;
        ctx->note = note;
        return false;
    }
    ctx->note = NULL;
    notice(ctx, pb_arena_printf(&ctx->arena, "no SQL engine here: %s puts the answers together",
                                address));
    return true;
}

int pb_nodelink_query(struct pb_ctx *ctx, struct pb_nodelink *n, const struct pb_question *q,
                      struct pb_answer *ret)
{
    struct pb_answer answer = {.living = -1, .ended = -1};
    struct taking t = {.ctx = ctx, .q = q, .answer = &answer, .http = n->http,
                       .lines = strcmp(q->format, "rows") == 0};
    struct sigaction old;
    int rc;

    pb_nodelink_catch(&old);
    rc = n->node ? query_here(ctx, n, q, &t) : query_by_http(ctx, n, q, &t);
    sigaction(SIGINT, &old, NULL);
    pb_buf_finish(&t.line);
    pb_buf_finish(&t.held);
    if (rc < 0 && atomic_load(&pb_nodelink_cancelled)) {
        ctx->interrupted = true;
        ctx->note = NULL;
        ctx->err = (struct pb_err){.code = PB_FAIL};
    }
    if (rc < 0 && !ctx->interrupted && goes_to_member(ctx, n, q))
        return pb_nodelink_query(ctx, n, q, ret);
    if (ret)
        *ret = answer;
    return rc;
}

struct rows {
    struct pb_ctx *ctx;
    const struct pb_json **v;
    size_t n, cap;
};

static int take_row(const void *data, size_t len, void *arg)
{
    struct rows *r = arg;
    struct pb_arena *a = &r->ctx->arena;
    struct pb_json *row;

    if (len == 0 || *(const char *)data != '[')
        return 0;
    row = PB_NEW(a, struct pb_json);
    if (pb_json_parse(a, data, len, row, &r->ctx->err) < 0)
        return -1;
    if (r->n == r->cap) {
        r->v = pb_arena_grow(a, r->v, r->cap * sizeof *r->v, (r->cap + 64) * 2 * sizeof *r->v);
        r->cap = (r->cap + 64) * 2;
    }
    r->v[r->n++] = row;
    return 0;
}

const char *pb_nodelink_cluster(const struct pb_ctx *ctx)
{
    return ctx->cluster && !ctx->scope ? "true" : NULL;
}

int pb_nodelink_rows(struct pb_ctx *ctx, struct pb_nodelink *n, const char *sql,
                     const struct pb_json ***ret_rows, size_t *ret_n)
{
    struct rows rows = {.ctx = ctx};
    struct pb_question q = {.sql = sql, .format = "rows", .quiet = true, .sink = take_row,
                            .arg = &rows, .cluster = pb_nodelink_cluster(ctx)};
    struct pb_answer answered = {0};

    if (pb_nodelink_query(ctx, n, &q, &answered) < 0)
        return -1;
    ctx->partial |= answered.partial;
    *ret_rows = rows.v;
    *ret_n = rows.n;
    return 0;
}
