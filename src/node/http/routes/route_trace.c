/*
 * GET /api/trace - what happened in a window of time, as a file that Perfetto or Chrome opens.
 */
#include <string.h>

#include "node/http/request.h"
#include "node/query/flame.h"
#include "node/query/lines.h"
#include "recording/timeline/timeline.h"

#define LAST_DEFAULT_S 60
/* Rows of one kind: beyond that a browser has trouble with the file. */
#define ROWS_MAX 200000

static void run(struct pb_request *rq);

const struct pb_route pb_route_trace = {
    .method = "GET",
    .path = "/api/trace",
    .doc = "a window of time as tracks for Perfetto: ?target, from, to, last, format",
    .run = run,
};

static int read_format(struct pb_request *rq, enum pb_timeline_format *ret, struct pb_err *err)
{
    const char *text = pb_http_param(rq->head, "format", rq->arena);

    *ret = PB_TIMELINE_PERFETTO;
    if (!text || !*text || strcmp(text, "perfetto") == 0)
        return 0;
    *ret = PB_TIMELINE_CHROME;
    return strcmp(text, "chrome") == 0
               ? 0
               : pb_err_set(err, PB_USAGE, "format: '%.40s' is neither perfetto nor chrome", text);
}

static int take_end(void *arg, const char *line, size_t len, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json row;

    if (len && line[0] == '[' && pb_json_parse(&a, line, len, &row, err) == 0 && row.n == 1 &&
        row.items[0].type == PB_J_INT)
        *(int64_t *)arg = row.items[0].v.i;
    pb_arena_finish(&a);
    return 0;
}

/* Without an end it is that of the last row: of a dead process, too. */
static int read_window(struct pb_request *rq, const struct pb_scope *scope,
                       struct pb_history_window *ret, struct pb_err *err)
{
    struct pb_query q = {.sql = pb_timeline_newest, .scope = scope, .cancelled = rq->gone};
    double from, to, last;

    if (pb_request_number(rq, "from", 1e15, &from, err) < 0 ||
        pb_request_number(rq, "to", 1e15, &to, err) < 0 ||
        pb_request_number(rq, "last", 1e9, &last, err) < 0)
        return -1;
    ret->to_ms = (int64_t)to;
    if (!ret->to_ms && pb_query_lines(rq->node, &q, take_end, &ret->to_ms, NULL, err) < 0)
        return -1;
    if (!ret->to_ms)
        return pb_err_set(err, PB_FAIL, "nothing is recorded of that yet");
    ret->from_ms = from > 0 ? (int64_t)from
                            : ret->to_ms - (int64_t)(1000 * (last > 0 ? last : LAST_DEFAULT_S));
    return ret->from_ms < ret->to_ms
               ? 0
               : pb_err_set(err, PB_USAGE, "the window ends before it begins");
}

static int take_row(void *arg, const char *line, size_t len, struct pb_err *err)
{
    return pb_timeline_line(arg, line, len, err);
}

static int write_trace(struct pb_request *rq, const struct pb_scope *scope, struct pb_buf *out,
                       bool *ret_truncated, struct pb_err *err)
{
    struct pb_query q = {.scope = scope, .max_rows = ROWS_MAX, .cancelled = rq->gone};
    struct pb_history_window w;
    struct pb_buf sql = PB_BUF_INIT;
    struct pb_flame_question flame = {.scope = scope, .where = "", .cancelled = rq->gone};
    struct pb_recording samples;
    enum pb_timeline_format format;
    struct pb_timeline *t;
    struct pb_err none = {0};
    bool sampled;
    int rc;

    if (read_format(rq, &format, err) < 0 || read_window(rq, scope, &w, err) < 0)
        return -1;
    flame.window = (struct pb_flame_window){.from_ms = w.from_ms, .to_ms = w.to_ms};
    sampled = pb_flame_load(rq->node, &flame, &samples, &none) == 0;
    pb_timeline_sql(&sql, &w);
    q.sql = sql.data;
    t = pb_timeline_begin(format, &w, sampled ? &samples : NULL, out);
    rc = pb_query_lines(rq->node, &q, take_row, t, ret_truncated, err);
    if (rc < 0)
        pb_timeline_destroy(t);
    else if (!pb_timeline_end(t) && !sampled)
        rc = pb_err_set(err, PB_FAIL, "nothing is recorded of that window");
    if (sampled)
        pb_recording_finish(&samples);
    pb_buf_finish(&sql);
    return rc;
}

static void run(struct pb_request *rq)
{
    struct pb_buf out = PB_BUF_INIT;
    struct pb_scope scope;
    struct pb_err err = {0};
    bool truncated = false;
    int rc = pb_request_scope(rq, &scope, &err);

    if (rc == 0 && scope.all)
        pb_node_scope_all(rq->node, pb_request_flag(rq, "dead"), rq->arena, &scope);
    if (rc == 0)
        rc = write_trace(rq, &scope, &out, &truncated, &err);
    if (rc < 0) {
        pb_reply_error(rq, &err, -1, "");
    } else {
        pb_reply_begin(rq, 200, "application/octet-stream");
        if (truncated)
            pb_reply_note(rq, "X-Probing-Truncated", "true");
        pb_reply_whole(rq, out.data, out.len);
        pb_reply_end(rq);
    }
    pb_buf_finish(&out);
}
