/*
 * GET /api/flame - where the time of processes went, as the tree that a flame graph is drawn from.
 */
#include <ctype.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/json_write.h"
#include "node/http/request.h"
#include "node/query/flame.h"
#include "recording/compare.h"
#include "recording/page.h"

#define NODES_DEFAULT 5000
#define NODES_MAX 100000

static void run(struct pb_request *rq);

const struct pb_route pb_route_flame = {
    .method = "GET",
    .path = "/api/flame",
    .doc = "flame graph out of history: ?target, from, to, last, thread, cpu, gil, idle, nodes, …",
    .run = run,
};

enum { EXPRESSION_MAX = 120 };

struct asked {
    struct pb_flame_question now, before;
    bool compares, median;
    struct pb_rec_filter filter;
    regex_t threads;
    bool has_threads;
    struct pb_page_opts page;
};

static int read_window(struct pb_request *rq, const char *from, const char *to, const char *last,
                       struct pb_flame_window *ret, struct pb_err *err)
{
    double begin, end, seconds;

    if (pb_request_number(rq, from, 1e15, &begin, err) < 0 ||
        pb_request_number(rq, to, 1e15, &end, err) < 0 ||
        pb_request_number(rq, last, 1e9, &seconds, err) < 0)
        return -1;
    *ret = (struct pb_flame_window){(int64_t)begin, (int64_t)end, seconds};
    return 0;
}

/*
 * Short, and without what the C library needs memory or time without end for: repeats inside of
 * repeats, and references back.
 */
static bool is_modest(const char *expression)
{
    for (const char *p = expression; *p; p++)
        if (*p == '{' || (*p == '\\' && isdigit((unsigned char)p[1])))
            return false;
    return strlen(expression) <= EXPRESSION_MAX;
}

static int read_filter(struct pb_request *rq, struct asked *a, struct pb_err *err)
{
    const char *threads = pb_http_param(rq->head, "thread", rq->arena);
    char why[128];
    int rc;

    a->filter = (struct pb_rec_filter){.gil = pb_request_flag(rq, "gil"),
                                       .cpu = pb_request_flag(rq, "cpu"),
                                       .idle = pb_request_flag(rq, "idle")};
    if (!threads || !*threads)
        return 0;
    if (!is_modest(threads))
        return pb_err_set(err, PB_USAGE,
                          "thread: an expression here has at most %d characters, and neither {} "
                          "nor \\1",
                          EXPRESSION_MAX);
    rc = regcomp(&a->threads, threads, REG_EXTENDED | REG_NOSUB);
    if (rc) {
        regerror(rc, &a->threads, why, sizeof why);
        return pb_err_set(err, PB_USAGE, "thread: '%.60s': %s", threads, why);
    }
    a->has_threads = true;
    a->filter.threads = &a->threads;
    return 0;
}

static int read_page(struct pb_request *rq, struct pb_page_opts *ret, struct pb_err *err)
{
    const char *below = pb_http_param(rq->head, "below", rq->arena);
    double nodes;
    char *end;

    if (pb_request_number(rq, "nodes", NODES_MAX, &nodes, err) < 0)
        return -1;
    ret->max_nodes = nodes > 0 ? (size_t)nodes : NODES_DEFAULT;
    if (!below || !*below)
        return 0;
    ret->below_id = strtoull(below, &end, 16);
    return *end || !ret->below_id
               ? pb_err_set(err, PB_USAGE, "below: '%.40s' is no id of a stack", below)
               : 0;
}

/* What it is compared with: another window, another process, or the median of the other ranks. */
static int read_before(struct pb_request *rq, struct asked *a, struct pb_scope *scope,
                       struct pb_err *err)
{
    const char *before = pb_http_param(rq->head, "before", rq->arena);

    a->before = a->now;
    if (read_window(rq, "before_from", "before_to", "before_last", &a->before.window, err) < 0)
        return -1;
    if (!a->before.window.from_ms && !a->before.window.last_s)
        a->before.window = a->now.window;
    else
        a->compares = true;
    if (!before || !*before)
        return 0;
    a->compares = true;
    a->median = strcmp(before, "median") == 0;
    if (a->median)
        return 0;
    a->before.scope = scope;
    return pb_request_scope_of(rq, before, scope, err);
}

static int read_question(struct pb_request *rq, struct asked *a, struct pb_scope *scopes,
                         struct pb_err *err)
{
    if (pb_request_scope(rq, &scopes[0], err) < 0)
        return -1;
    if (scopes[0].all)
        pb_node_scope_all(rq->node, pb_request_flag(rq, "dead"), rq->arena, &scopes[0]);
    a->now = (struct pb_flame_question){.scope = &scopes[0], .where = "",
                                        .by_function = pb_request_flag(rq, "function"),
                                        .cancelled = rq->gone};
    return read_window(rq, "from", "to", "last", &a->now.window, err) < 0 ||
                   read_filter(rq, a, err) < 0 || read_page(rq, &a->page, err) < 0 ||
                   read_before(rq, a, &scopes[1], err) < 0
               ? -1
               : 0;
}

/* All other ranks that may be spoken of, each by itself. */
static int compare_median(struct pb_request *rq, const struct asked *a, struct pb_recording *r,
                          struct pb_err *err)
{
    struct pb_flame_question q = a->before;
    struct pb_scope all;
    struct pb_recording together, *others;
    uint32_t *roots;
    size_t n;

    if (pb_request_scope_of(rq, rq->reach, &all, err) < 0)
        return -1;
    q.scope = &all;
    q.by_process = true;
    q.where = pb_arena_printf(rq->arena, "rank IS NOT NULL AND pid <> %d", (int)r->pid);
    if (pb_flame_load(rq->node, &q, &together, err) < 0)
        return pb_err_prefix(err, "the other ranks");
    n = pb_compare_roots(&together, rq->arena, &roots);
    others = PB_NEW_N(rq->arena, struct pb_recording, n + 1);
    for (size_t i = 0; i < n; i++)
        pb_compare_split(&together, roots[i], &others[i]);
    pb_compare_median(r, others, n,
                      pb_arena_printf(rq->arena, "the median of %zu others", n));
    for (size_t i = 0; i < n; i++)
        pb_recording_finish(&others[i]);
    pb_recording_finish(&together);
    return 0;
}

static int compare(struct pb_request *rq, const struct asked *a, struct pb_recording *r,
                   struct pb_err *err)
{
    struct pb_recording before;

    if (!a->compares)
        return 0;
    if (a->median)
        return compare_median(rq, a, r, err);
    if (pb_flame_load(rq->node, &a->before, &before, err) < 0)
        return pb_err_prefix(err, "what it is compared with");
    pb_compare(r, &before, pb_http_param(rq->head, "before", rq->arena)
                               ? pb_http_param(rq->head, "before", rq->arena)
                               : "another window");
    pb_recording_finish(&before);
    return 0;
}

static int answer(struct pb_request *rq, struct asked *a, struct pb_buf *out, struct pb_err *err)
{
    struct pb_recording r;
    int rc;

    if (pb_flame_load(rq->node, &a->now, &r, err) < 0)
        return -1;
    rc = compare(rq, a, &r, err);
    if (rc == 0) {
        pb_recording_filter(&r, &a->filter);
        if (!pb_page_json(&r, &a->page, out))
            rc = pb_err_set(err, PB_NO_TARGET, "below: no such stack in this window");
    }
    pb_recording_finish(&r);
    return rc;
}

/* For who shows it: that there is nothing to see is an answer, too. */
static void reply_empty(struct pb_request *rq, const struct pb_err *err)
{
    struct pb_buf out = PB_BUF_INIT;

    pb_buf_puts(&out, "{\"empty\":");
    pb_json_string(&out, err->msg);
    pb_buf_putc(&out, '}');
    pb_reply_json(rq, &out);
    pb_buf_finish(&out);
}

static void run(struct pb_request *rq)
{
    struct asked a = {.compares = false};
    struct pb_buf out = PB_BUF_INIT;
    struct pb_scope scopes[2];
    struct pb_err err = {0};
    int rc = read_question(rq, &a, scopes, &err);

    if (rc == 0)
        rc = answer(rq, &a, &out, &err);
    if (rc == 0)
        pb_reply_json(rq, &out);
    else if (err.code == PB_FAIL && pb_request_flag(rq, "quiet"))
        reply_empty(rq, &err);
    else
        pb_reply_error(rq, &err, -1, "");
    if (a.has_threads)
        regfree(&a.threads);
    pb_buf_finish(&out);
}
