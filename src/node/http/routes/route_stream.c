/*
 * POST /api/stream - answers to a set of queries, again and again: what an open page watches.
 *
 *     {"queries": [{"id": "steps", "sql": "… WHERE timestamp >= $from …", "span": 600}]}
 *
 * Server-sent events. A query with $from in it is asked for the last `span` seconds first, and then
 * only for what came since, a little overlapping: the page replaces its points from there on. One
 * without is asked for as a whole, and sent when the answer is another one. A stream that breaks is
 * resumed by naming `from` for each query.
 *
 * Watching must not load the machine: asking takes at most a twentieth of a core, of all streams
 * together; when it would take more, answers come less often.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "host/text/json_write.h"
#include "node/http/conn.h"
#include "node/query/query.h"

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ll
/* Of the time that is waited for each millisecond of asking. */
#define SHARE 19
#define COMMENT_NS (15 * NS_PER_S)
/* Rows are written when what they are about ends, some of them later than they say. */
#define OVERLAP_S 10
#define FROM "$from"

enum { QUERIES_MAX = 32, STREAMS_MAX = 24, ROWS_MAX = 100000, SPAN_MAX_S = 86400 * 31 };

static void run(struct pb_request *rq);

const struct pb_route pb_route_stream = {
    .method = "POST",
    .path = "/api/stream",
    .doc = "answers to queries, again and again, as server-sent events: {queries}",
    .run = run,
};

struct watched {
    const struct pb_json *as_asked;
    const char *id, *sql;
    uint64_t every_ns, due_ns; /* monotonic */
    int64_t from_ns;           /* $from of the next question, since 1970 */
    int64_t bucket_ns;         /* $from is a multiple of it */
    bool grows;                /* has $from */
    uint64_t hash;             /* hash of the last answer */
    uint64_t took_ns;          /* to ask, the last time */
};

struct stream {
    struct pb_request *rq;
    struct watched v[QUERIES_MAX];
    size_t n;
    int gone; /* becomes readable when the client goes away */
    uint64_t said_ns;
    uint64_t events;
};

static int read_query(struct watched *w, const struct pb_json *q, struct pb_err *err)
{
    double every = pb_json_number(q, "every", 1), span = pb_json_number(q, "span", 600);
    double bucket = pb_json_number(q, "bucket", 0);
    int64_t from_ms = pb_json_whole(q, "from", 0);

    *w = (struct watched){.as_asked = q, .id = pb_json_str(q, "id", NULL),
                          .sql = pb_json_str(q, "sql", NULL)};
    if (!w->id || !w->sql)
        return pb_err_set(err, PB_USAGE, "each of \"queries\" has an \"id\" and \"sql\"");
    if (!(every >= 0.2 && every <= 3600) || !(span > 0 && span <= SPAN_MAX_S) ||
        !(bucket >= 0 && bucket <= SPAN_MAX_S) || from_ms < 0)
        return pb_err_set(err, PB_USAGE,
                          "every is 0.2 to 3600 s, span and bucket are up to 31 days, from is "
                          "milliseconds since 1970");
    w->every_ns = (uint64_t)(every * (double)NS_PER_S);
    w->bucket_ns = (int64_t)(bucket * (double)NS_PER_S);
    w->grows = strstr(w->sql, FROM) != NULL;
    w->from_ns = from_ms ? from_ms * (int64_t)NS_PER_MS
                         : pb_clock_wall_ns() - (int64_t)(span * (double)NS_PER_S);
    return 0;
}

static int read_queries(struct stream *s, struct pb_err *err)
{
    const struct pb_json *list = pb_json_get(s->rq->body, "queries");

    if (!list || list->type != PB_J_ARRAY || list->n == 0 || list->n > QUERIES_MAX)
        return pb_err_set(err, PB_USAGE, "\"queries\" is a list of 1 to %d", QUERIES_MAX);
    for (size_t i = 0; i < list->n; i++)
        if (read_query(&s->v[i], &list->items[i], err) < 0)
            return -1;
    s->n = list->n;
    return 0;
}

/* The text with a time for each $from. */
static const char *with_time(const struct watched *w, int64_t from_ns, struct pb_arena *a)
{
    time_t secs = (time_t)(from_ns / NS_PER_S);
    struct pb_buf b = PB_BUF_INIT;
    char when[80], day[32];
    const char *at = w->sql, *next, *text;
    struct tm tm;

    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", gmtime_r(&secs, &tm));
    snprintf(when, sizeof when, "TIMESTAMPTZ '%s.%06d+00'", day, (int)(from_ns % NS_PER_S / 1000));
    while ((next = strstr(at, FROM))) {
        pb_buf_add(&b, at, (size_t)(next - at));
        pb_buf_puts(&b, when);
        at = next + strlen(FROM);
    }
    pb_buf_puts(&b, at);
    text = pb_arena_strdup(a, b.data);
    pb_buf_finish(&b);
    return text;
}

static int collect(const void *data, size_t len, void *arg)
{
    pb_buf_add(arg, data, len);
    return 0;
}

static int send_event(struct stream *s, const char *event, const struct pb_buf *data)
{
    char head[80];

    snprintf(head, sizeof head, "event: %s\nid: %" PRIu64 "\ndata: ", event, ++s->events);
    pb_reply_puts(s->rq, head);
    pb_reply_write(s->rq, data->data, data->len);
    pb_reply_puts(s->rq, "\n\n");
    s->said_ns = pb_clock_ns();
    return pb_reply_flush(s->rq);
}

/* Lines of JSON, the columns first, as members of one object. */
static void add_rows(struct pb_buf *out, char *lines, size_t len)
{
    char *end = lines + len, *line = lines;
    bool first = true;

    for (char *stop; line < end; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end;
        if (line == lines && *line == '{') { /* {"columns":[…]} without its braces */
            pb_buf_putc(out, ',');
            pb_buf_add(out, line + 1, (size_t)(stop - line) - 2);
            pb_buf_puts(out, ",\"rows\":[");
            continue;
        }
        if (!first)
            pb_buf_putc(out, ',');
        pb_buf_add(out, line, (size_t)(stop - line));
        first = false;
    }
    pb_buf_putc(out, ']');
}

static void add_notices(struct pb_buf *out, char *lines)
{
    char *line;

    pb_json_key(out, "notices");
    pb_buf_putc(out, '[');
    while ((line = strsep(&lines, "\n")))
        if (*line) {
            pb_json_comma(out);
            pb_json_string(out, line);
        }
    pb_buf_putc(out, ']');
}

static void put_id(struct pb_buf *out, const struct watched *w)
{
    pb_buf_putc(out, '{');
    pb_json_key(out, "id");
    pb_json_string(out, w->id);
}

static int send_rows(struct stream *s, struct watched *w, int64_t asked_ns, struct pb_buf *lines,
                     const struct pb_sql_done *done)
{
    uint64_t hash = pb_hash_bytes(PB_HASH_SEED, lines->data, lines->len);
    struct pb_buf b = PB_BUF_INIT;
    int rc;

    if (!w->grows && hash == w->hash)
        return 0;
    w->hash = hash;
    put_id(&b, w);
    pb_json_key(&b, "at");
    pb_json_int(&b, asked_ns / (int64_t)NS_PER_MS);
    if (w->grows) {
        pb_json_key(&b, "from");
        pb_json_int(&b, w->from_ns / (int64_t)NS_PER_MS);
    }
    pb_json_key(&b, "ms");
    pb_buf_printf(&b, "%.3f", done->ms);
    pb_json_key(&b, "truncated");
    pb_json_bool(&b, done->truncated);
    add_notices(&b, done->notices.data);
    add_rows(&b, lines->data, lines->len);
    pb_buf_putc(&b, '}');
    rc = send_event(s, "rows", &b);
    pb_buf_finish(&b);
    return rc;
}

/* A query that fails is told once, and asked again later: its table may come. */
static int send_error(struct stream *s, struct watched *w, const struct pb_sql_error *e)
{
    uint64_t hash = pb_hash_bytes(PB_HASH_SEED, e->err.msg, strlen(e->err.msg)) ^ 1;
    struct pb_buf b = PB_BUF_INIT, error = PB_BUF_INIT;
    int rc = 0;

    if (hash != w->hash) {
        pb_reply_error_json(&error, pb_reply_code(e->err.code), e->err.msg, e->at, e->nearest);
        put_id(&b, w);
        pb_buf_printf(&b, ",%s", error.data + 1);
        rc = send_event(s, "failed", &b);
    }
    w->hash = hash;
    pb_buf_finish(&error);
    pb_buf_finish(&b);
    return rc;
}

/* The next question is about what comes from now on, and a little before. */
static void advance(struct watched *w, int64_t asked_ns)
{
    int64_t from = asked_ns - OVERLAP_S * NS_PER_S;

    if (w->bucket_ns)
        from -= from % w->bucket_ns;
    if (w->grows && from > w->from_ns)
        w->from_ns = from;
}

static int ask(struct stream *s, struct watched *w)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_request one = *s->rq;
    struct pb_buf lines = PB_BUF_INIT;
    struct pb_scope scope;
    struct pb_sql_done done = {0};
    struct pb_sql_error err = {.at = -1};
    struct pb_query q = {.scope = &scope, .format = PB_FORMAT_ROWS, .max_rows = ROWS_MAX,
                         .cancelled = s->rq->gone, .sink = collect, .arg = &lines};
    int64_t asked_ns = pb_clock_wall_ns();
    uint64_t began = pb_clock_ns();
    int rc;

    one.body = w->as_asked;
    one.arena = &arena;
    q.sql = with_time(w, w->from_ns, &arena);
    rc = pb_request_scope(&one, &scope, &err.err);
    if (rc == 0 && scope.all)
        pb_node_scope_all(one.node, pb_json_flag(w->as_asked, "dead", false), &arena, &scope);
    if (rc == 0)
        rc = pb_query_run(one.node, &q, w->hash != 0, &done, &err);
    w->took_ns = pb_clock_ns() - began;
    if (rc == 0)
        rc = send_rows(s, w, asked_ns, &lines, &done);
    else if (!atomic_load(s->rq->gone))
        rc = send_error(s, w, &err);
    advance(w, asked_ns);
    pb_buf_finish(&lines);
    pb_buf_finish(&done.notices);
    pb_arena_finish(&arena);
    return rc;
}

/* Until then, or until the client goes away: true. */
static bool rest(struct stream *s, uint64_t until_ns)
{
    uint64_t now = pb_clock_ns();
    struct pollfd gone = {.fd = s->gone, .events = POLLIN};

    return poll(&gone, 1, until_ns > now ? (int)((until_ns - now) / NS_PER_MS) + 1 : 0) != 0 ||
           atomic_load(s->rq->gone);
}

static void watch(struct stream *s)
{
    uint64_t allowed = 0; /* the next question may be asked then */

    for (;;) {
        struct watched *next = &s->v[0];
        uint64_t when, now;

        for (size_t i = 1; i < s->n; i++)
            if (s->v[i].due_ns < next->due_ns)
                next = &s->v[i];
        /* What was never asked does not wait: a page is to have its first picture at once. */
        when = next->due_ns > allowed || !next->due_ns ? next->due_ns : allowed;
        if (when > s->said_ns + COMMENT_NS) {
            if (rest(s, s->said_ns + COMMENT_NS) || pb_reply_puts(s->rq, ": still here\n\n") < 0 ||
                pb_reply_flush(s->rq) < 0)
                return;
            s->said_ns = pb_clock_ns();
            continue;
        }
        if (rest(s, when) || ask(s, next) < 0)
            return;
        now = pb_clock_ns();
        next->due_ns = now - next->took_ns + next->every_ns;
        allowed = now + next->took_ns * SHARE * (uint64_t)atomic_load(&s->rq->server->streams);
    }
}

static void run(struct pb_request *rq)
{
    struct stream s = {.rq = rq};
    struct pb_err err = {0};
    int ends[2];

    if (atomic_fetch_add(&rq->server->streams, 1) >= STREAMS_MAX) {
        pb_err_set(&err, PB_FAIL, "%d pages are watching already", STREAMS_MAX);
    } else if (read_queries(&s, &err) == 0 &&
               socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        pb_err_set(&err, PB_FAIL, "no descriptor left");
    } else if (err.code == PB_OK) {
        s.gone = ends[1];
        pb_request_watch(rq, ends[0]);
        pb_reply_begin(rq, 200, "text/event-stream; charset=utf-8");
        pb_reply_note(rq, "X-Accel-Buffering", "no");
        pb_reply_puts(rq, ": probing\n\n");
        s.said_ns = pb_clock_ns();
        if (pb_reply_flush(rq) == 0)
            watch(&s);
        pb_request_watch(rq, -1);
        close(ends[0]);
        close(ends[1]);
    }
    if (err.code != PB_OK)
        pb_reply_error(rq, &err, -1, NULL);
    atomic_fetch_sub(&rq->server->streams, 1);
}
