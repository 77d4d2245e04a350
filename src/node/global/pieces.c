/* The nodes' answers to the parts of a statement, as files in the engine's folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/global/pieces.h"
#include "node/query/lines.h"
#include "node/sql/text/text.h"

/* For reading one node's answer, to see whether it can be read at all. */
#define CHECK_MS 2000
#define NOTICES_MAX 8

/* All pieces come by one thread. */
static int take(const void *data, size_t len, void *arg, struct pb_err *err)
{
    struct pb_piece *p = arg;
    struct pb_gathering *g = p->g;
    const char *at = data;

    if (p->fd < 0)
        p->fd = open(p->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    g->bytes += len;
    p->bytes += len;
    if (g->bytes > g->max) {
        g->too_much = true;
        atomic_store(&g->stop, true);
        return pb_err_set(err, PB_FAIL, "too many bytes");
    }
    if (g->q->cancelled && atomic_load(g->q->cancelled))
        atomic_store(&g->stop, true);
    while (p->fd >= 0 && len) {
        ssize_t n = write(p->fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += n;
        len -= (size_t)n;
    }
    return len ? pb_err_set(err, PB_FAIL, "%s: %s", p->path, strerror(errno)) : 0;
}

static void put_text(struct pb_buf *b, const char *key, const char *value)
{
    if (!value)
        return;
    pb_json_key(b, key);
    pb_json_string(b, value);
}

static const char *body_of(struct pb_gathering *g, const struct pb_global_part *part)
{
    uint64_t now = pb_clock_ns();
    double left = now < g->deadline_ns ? (double)(g->deadline_ns - now) / 1e9 : 0.01;
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    pb_buf_putc(&b, '{');
    put_text(&b, "sql", part->sql);
    put_text(&b, "format", "parquet");
    put_text(&b, "ranks", g->scope->ranks);
    put_text(&b, "job", g->scope->job);
    pb_json_key(&b, "timeout");
    pb_buf_printf(&b, "%.3f", left);
    pb_json_key(&b, "dead");
    pb_json_bool(&b, g->scope->dead);
    put_text(&b, "types", part->types);
    if (g->plan.tables)
        pb_buf_printf(&b, ",\"tables\":%s,\"whole\":%s", g->plan.tables,
                      g->plan.guessed ? "true" : "false");
    pb_buf_puts(&b, ",\"quiet\":true}");
    copy = pb_arena_strdup(g->arena, b.data);
    pb_buf_finish(&b);
    return copy;
}

/* A table that its processes make is nowhere else: that is an answer. */
static bool is_unknown_there(const struct pb_piece *p, const struct pb_err *err)
{
    char said[160];

    snprintf(said, sizeof said, "no table '%s'", p->part->table);
    return strncasecmp(err->msg, said, strlen(said)) == 0;
}

int pb_pieces_ask(struct pb_gathering *g, struct pb_err *err)
{
    size_t most = g->nodes->n * g->plan.nparts + 1;
    struct pb_fan_one *v = PB_NEW_N(g->arena, struct pb_fan_one, most);
    struct pb_global_node **of = PB_NEW_N(g->arena, struct pb_global_node *, most);
    struct pb_fan_request r = {.path = "/api/query", .deadline_ns = g->deadline_ns,
                               .cancelled = &g->stop, .note_header = "X-Probing-Notices"};

    g->pieces = PB_NEW_N(g->arena, struct pb_piece, most);
    for (size_t k = 0; k < g->plan.nparts; k++) {
        const char *body = body_of(g, &g->plan.parts[k]);

        for (size_t i = 0; i < g->nodes->n; i++) {
            struct pb_piece *p = &g->pieces[g->npieces];

            if (!g->nodes->v[i].asked)
                continue;
            *p = (struct pb_piece){.g = g, .node = &g->nodes->v[i], .part = &g->plan.parts[k],
                                .fd = -1};
            snprintf(p->path, sizeof p->path, "%.240s/global-%ld-%llx-%zu.parquet",
                     pb_sql_tmp(g->n->sql), (long)getpid(), (unsigned long long)g->begun_ns,
                     g->npieces);
            v[g->npieces] = (struct pb_fan_one){.sink = take, .arg = p, .body = body,
                                                .body_len = strlen(body)};
            of[g->npieces++] = p->node;
        }
    }
    if (pb_global_fan(g->n, v, g->npieces, of, &r, g->arena, err) < 0)
        return -1;
    for (size_t i = 0; i < g->npieces; i++) {
        struct pb_piece *p = &g->pieces[i];

        p->empty = !v[i].answered && is_unknown_there(p, &v[i].err);
        p->note = v[i].note[0] ? v[i].note : NULL;
        g->others |= !v[i].answered && strstr(v[i].err.msg, PB_SQL_OTHER_COLUMNS);
        if (p->empty && p->node->why && strcmp(p->node->why, v[i].err.msg) == 0)
            p->node->why = NULL;
        if (p->fd >= 0)
            close(p->fd);
    }
    pb_global_count(g->nodes);
    return 0;
}

const char *pb_pieces_view(struct pb_gathering *g, const struct pb_global_part *part)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;
    size_t files = 0;

    pb_buf_printf(&b, "SELECT %s FROM read_parquet([", part->columns);
    for (size_t i = 0; i < g->npieces; i++) {
        const struct pb_piece *p = &g->pieces[i];

        if (p->part != part || !p->node->answered || p->empty)
            continue;
        pb_buf_puts(&b, files++ ? "," : "");
        pb_sql_literal(&b, p->path);
    }
    pb_buf_puts(&b, "], union_by_name = true, hive_partitioning = false)");
    copy = files ? pb_arena_strdup(g->arena, b.data) : NULL;
    pb_buf_finish(&b);
    return copy;
}

void pb_pieces_put_notices(struct pb_gathering *g, struct pb_buf *lines)
{
    size_t n = 0;

    for (size_t i = 0; i < g->npieces; i++)
        if (g->pieces[i].note && g->pieces[i].node->answered && n++ < NOTICES_MAX)
            pb_buf_printf(lines, "%s: %s\n", g->pieces[i].node->host, g->pieces[i].note);
    if (n > NOTICES_MAX)
        pb_buf_printf(lines, "and %zu more notices of nodes\n", n - NOTICES_MAX);
}

static int drop_line(void *arg, const char *line, size_t len, struct pb_err *err)
{
    (void)arg, (void)line, (void)len, (void)err;
    return 0;
}

/* Reads all of an answer. What cannot be read is none, and its node is named. */
static bool is_readable(struct pb_gathering *g, struct pb_piece *p)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *view[1][2] = {{"answer", NULL}};
    struct pb_sql_gathered gathered = {.views = view, .nviews = 1};
    static const struct pb_scope all = {.all = true};
    struct pb_query q = {.sql = "SELECT * FROM answer", .gathered = &gathered, .scope = &all,
                         .timeout_ms = CHECK_MS, .cancelled = g->q->cancelled};
    struct pb_err err = {0};
    int rc;

    pb_buf_puts(&b, "SELECT * FROM read_parquet(");
    pb_sql_literal(&b, p->path);
    pb_buf_puts(&b, ", hive_partitioning = false)");
    view[0][1] = b.data;
    rc = pb_query_lines(g->n, &q, drop_line, NULL, NULL, &err);
    pb_buf_finish(&b);
    return rc == 0;
}

bool pb_pieces_drop_unreadable(struct pb_gathering *g)
{
    bool found = false;

    for (size_t i = 0; i < g->npieces && !atomic_load(&g->stop); i++) {
        struct pb_piece *p = &g->pieces[i];

        if (!p->node->answered || p->empty || is_readable(g, p))
            continue;
        p->node->why = "its answer makes no sense";
        pb_peers_refuse(g->n->peers);
        found = true;
    }
    if (found)
        pb_global_count(g->nodes);
    return found && g->nodes->answered;
}

void pb_pieces_drop(struct pb_gathering *g)
{
    for (size_t i = 0; i < g->npieces; i++)
        if (g->pieces[i].fd >= 0)
            unlink(g->pieces[i].path);
}
