/*
 * POST /api/cluster/ranks - which processes the ranks of jobs are, here or at all nodes.
 */
#include "base/clock.h"
#include "cluster/ranges.h"
#include "host/text/json_write.h"
#include "node/global/global.h"
#include "node/http/request.h"
#include "node/parts.h"
#include "node/peers/ranks.h"

#define ANSWER_MAX (8 << 20)
#define TIMEOUT_NS 5000000000ull

static void run(struct pb_request *rq);

const struct pb_route pb_route_ranks = {
    .method = "POST",
    .path = "/api/cluster/ranks",
    .doc = "which processes ranks are: {ranks?, job?, cluster?}; cluster: at all nodes",
    .run = run,
};

static void put_number(struct pb_buf *b, const char *key, int64_t v)
{
    pb_json_key(b, key);
    pb_json_int(b, v);
}

static void put_text(struct pb_buf *b, const char *key, const char *v)
{
    if (!v)
        return;
    pb_json_key(b, key);
    pb_json_string(b, v);
}

static int put_own(struct pb_request *rq, struct pb_buf *b, struct pb_err *err)
{
    const char *ranks = pb_json_str(rq->body, "ranks", NULL);
    const char *job = pb_json_str(rq->body, "job", NULL);
    struct pb_rank *v;
    size_t n;

    if (pb_ranks_select(rq->node->ranks, ranks, job, rq->arena, &v, &n, err) < 0)
        return -1;
    pb_buf_puts(b, "{\"ranks\":[");
    for (size_t i = 0; i < n; i++) {
        if (!pb_request_reaches(rq, v[i].pid, v[i].start))
            continue;
        pb_json_comma(b);
        pb_buf_putc(b, '{');
        put_number(b, "rank", v[i].rank);
        put_number(b, "world", v[i].world);
        put_number(b, "pid", v[i].pid);
        put_number(b, "start", (int64_t)v[i].start);
        put_text(b, "job", v[i].job);
        put_text(b, "script", v[i].script);
        pb_buf_putc(b, '}');
    }
    pb_buf_puts(b, "]}");
    return 0;
}

/* What one node says, with where that is; only what can be. */
static void put_answer(struct pb_request *rq, struct pb_buf *b, struct pb_global_node *node,
                       struct pb_ranges *seen)
{
    struct pb_json answer;
    const struct pb_json *list;

    if (pb_json_parse(rq->arena, node->answer.data ? node->answer.data : "", node->answer.len,
                      &answer, NULL) < 0 ||
        !(list = pb_json_get(&answer, "ranks"))) {
        node->why = "its answer makes no sense";
        return;
    }
    for (size_t i = 0; list->type == PB_J_ARRAY && i < list->n; i++) {
        const struct pb_json *one = &list->items[i];
        int64_t rank = pb_json_whole(one, "rank", -1), pid = pb_json_whole(one, "pid", -1);
        int64_t start = pb_json_whole(one, "start", -1);

        if (rank < 0 || rank >= PB_RANGES_VALUE_MAX || pid <= 0 || start < 0)
            continue;
        pb_ranges_add(seen, (uint32_t)rank, (uint32_t)rank);
        pb_json_comma(b);
        pb_buf_putc(b, '{');
        put_number(b, "rank", rank);
        put_number(b, "world", pb_json_whole(one, "world", 0));
        put_number(b, "pid", pid);
        put_number(b, "start", start);
        put_text(b, "job", pb_json_str(one, "job", ""));
        put_text(b, "script", pb_json_str(one, "script", ""));
        put_text(b, "host", node->host);
        put_text(b, "address", node->address);
        pb_buf_putc(b, '}');
    }
}

/* Of the ranks that were named those that nobody has, as all nodes have said theirs now. */
static void name_absent(struct pb_request *rq, const char *ranks, const struct pb_ranges *seen,
                        struct pb_global_nodes *nodes)
{
    struct pb_ranges wanted = {0}, rest = {0};
    struct pb_buf b = PB_BUF_INIT;

    if (nodes->answered == nodes->n && ranks && pb_ranges_parse(&wanted, ranks, NULL) == 0) {
        pb_ranges_without(&wanted, seen, &rest);
        pb_ranges_text(&rest, &b);
        nodes->no_node = rest.n ? pb_arena_strdup(rq->arena, b.data) : NULL;
    }
    pb_ranges_finish(&wanted);
    pb_ranges_finish(&rest);
    pb_buf_finish(&b);
}

static int put_all(struct pb_request *rq, struct pb_buf *b, struct pb_err *err)
{
    struct pb_global_scope w = {.ranks = pb_json_str(rq->body, "ranks", NULL),
                                .job = pb_json_str(rq->body, "job", NULL)};
    struct pb_buf body = PB_BUF_INIT;
    struct pb_global_nodes nodes;
    struct pb_ranges seen = {0};
    int rc;

    if (rq->reach)
        return pb_err_set(err, PB_DENIED, "this token does not reach other nodes");
    pb_buf_putc(&body, '{');
    put_text(&body, "ranks", w.ranks);
    put_text(&body, "job", w.job);
    pb_buf_putc(&body, '}');
    rc = pb_global_ask(rq->node, &w, "/api/cluster/ranks", body.data, ANSWER_MAX,
                       pb_clock_ns() + TIMEOUT_NS, rq->gone, rq->arena, &nodes, err);
    pb_buf_finish(&body);
    if (rc < 0)
        return -1;
    pb_buf_puts(b, "{\"ranks\":[");
    for (size_t i = 0; i < nodes.n; i++)
        if (nodes.v[i].answered)
            put_answer(rq, b, &nodes.v[i], &seen);
    pb_buf_putc(b, ']');
    pb_global_count(&nodes);
    name_absent(rq, w.ranks, &seen, &nodes);
    pb_ranges_finish(&seen);
    pb_json_key(b, "coverage");
    pb_global_json(b, &nodes, SIZE_MAX);
    put_text(b, "missing", pb_global_missing(&nodes, rq->arena));
    put_text(b, "twice", nodes.twice);
    pb_buf_putc(b, '}');
    pb_global_finish(&nodes);
    return 0;
}

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};

    if (pb_json_flag(rq->body, "cluster", false))
        put_all(rq, &b, &err);
    else
        put_own(rq, &b, &err);
    if (err.code != PB_OK)
        pb_reply_error(rq, &err, -1, NULL);
    else
        pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
