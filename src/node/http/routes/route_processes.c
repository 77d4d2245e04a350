/*
 * GET /api/processes - the Python processes of this machine, and on demand those that ended.
 */
#include "base/home.h"
#include "host/net/agent_socket.h"
#include "host/text/json_write.h"
#include "host/python/processes.h"
#include "host/text/secret.h"
#include "node/http/request.h"
#include "node/parts.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_processes = {
    .method = "GET",
    .path = "/api/processes",
    .doc = "Python processes of this machine; ?dead=1: also those that left rows",
    .run = run,
};

static void number(struct pb_buf *b, const char *key, long long v)
{
    pb_json_key(b, key);
    if (v < 0)
        pb_buf_puts(b, "null");
    else
        pb_json_int(b, v);
}

static void text(struct pb_buf *b, const char *key, const char *s)
{
    pb_json_key(b, key);
    pb_json_string_or_null(b, s);
}

static void flag(struct pb_buf *b, const char *key, bool v)
{
    pb_json_key(b, key);
    pb_json_bool(b, v);
}

/* A program may learn its rank after it began: then its agent says it, not its environment. */
static const struct pb_store *store_of(const struct pb_stores *stores, pid_t pid)
{
    for (size_t i = 0; i < stores->nstores; i++)
        if (stores->stores[i]->process.live && stores->stores[i]->process.pid == pid)
            return stores->stores[i];
    return NULL;
}

static int add_living(struct pb_request *rq, struct pb_buf *b, struct pb_err *err)
{
    struct pb_stores *stores = pb_discover_snapshot(rq->node->discover, 500);
    struct pb_process *all;
    int n = pb_processes_read(rq->arena, &all, err);

    for (int i = 0; i < n; i++) {
        const struct pb_process *p = &all[i];
        const struct pb_store *s = p->rank < 0 ? store_of(stores, p->pid) : NULL;

        if (!pb_request_reaches(rq, p->pid, pb_home_start_time(p->pid)))
            continue;
        pb_json_comma(b);
        pb_buf_putc(b, '{');
        number(b, "pid", p->pid);
        number(b, "ns_pid", p->ns_pid);
        number(b, "parent", p->parent ? p->parent : -1);
        text(b, "python", p->python.version[0] ? p->python.version : NULL);
        number(b, "rank", s ? s->rank : p->rank);
        number(b, "world_size", s ? s->world_size : p->world_size);
        text(b, "user", p->user);
        number(b, "threads", p->threads);
        text(b, "state", p->state);
        text(b, "command", pb_secret_command(p->argv, p->argv_len, p->command, rq->arena));
        flag(b, "live", true);
        flag(b, "probed", pb_agent_present(p->pid));
        pb_buf_putc(b, '}');
    }
    pb_stores_unref(stores);
    return n < 0 ? -1 : 0;
}

static void add_dead(struct pb_request *rq, struct pb_buf *b)
{
    struct pb_stores *stores = pb_discover_snapshot(rq->node->discover, 0);

    for (size_t i = 0; i < stores->nstores; i++) {
        const struct pb_store *s = stores->stores[i];
        const char *command;
        bool killed;

        if (s->process.live || !pb_request_reaches(rq, s->process.pid, s->process.start) ||
            pb_store_value(s->meta, "role", rq->arena))
            continue; /* a node's own folder is no job */
        pb_json_comma(b);
        pb_buf_putc(b, '{');
        number(b, "pid", s->process.pid);
        text(b, "id", s->process.id);
        text(b, "host", s->host);
        text(b, "python", pb_store_value(s->meta, "python", rq->arena));
        number(b, "rank", s->rank);
        number(b, "world_size", s->world_size);
        command = pb_store_value(s->meta, "command", rq->arena);
        text(b, "command", command ? pb_secret_text(command, rq->arena) : NULL);
        number(b, "ended_ns", s->process.until_ns);
        text(b, "how", pb_store_end(s, rq->arena, &killed));
        flag(b, "live", false);
        pb_buf_putc(b, '}');
    }
    pb_stores_unref(stores);
}

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};

    pb_buf_putc(&b, '[');
    /* What lives here has nothing to do with a folder that was copied. */
    if (!rq->node->opts.store_dir && add_living(rq, &b, &err) < 0) {
        pb_reply_error(rq, &err, -1, NULL);
    } else {
        if (pb_request_flag(rq, "dead"))
            add_dead(rq, &b);
        pb_buf_putc(&b, ']');
        pb_reply_json(rq, &b);
    }
    pb_buf_finish(&b);
}
