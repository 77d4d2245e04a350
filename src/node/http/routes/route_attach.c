/*
 * POST /api/cluster - joins a cluster, or leaves it.
 */
#include "host/text/json_write.h"
#include "node/http/request.h"
#include "node/http/server.h"
#include "node/parts.h"
#include "node/peers/peers.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_attach = {
    .method = "POST",
    .path = "/api/cluster",
    .doc = "joins a cluster: {seeds?, name?, token?, address?, observe?}; {detach: true} leaves it",
    .flags = PB_ROUTE_LOCAL,
    .run = run,
    .needs = PB_RIGHT_CONTROL,
};

static int read_seeds(struct pb_request *rq, struct pb_peers_attach *w, struct pb_err *err)
{
    const struct pb_json *seeds = pb_json_get(rq->body, "seeds");
    const char **v;

    if (!seeds)
        return 0;
    if (seeds->type != PB_J_ARRAY)
        return pb_err_set(err, PB_USAGE, "seeds is a list of addresses");
    v = PB_NEW_N(rq->arena, const char *, seeds->n + 1);
    for (size_t i = 0; i < seeds->n; i++) {
        if (seeds->items[i].type != PB_J_STRING)
            return pb_err_set(err, PB_USAGE, "seeds is a list of addresses");
        v[w->nseeds++] = seeds->items[i].s;
    }
    w->seeds = v;
    return 0;
}

static void put_seeds(struct pb_buf *b, const struct pb_peers_seed *v, size_t n)
{
    pb_json_key(b, "seeds");
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) {
        pb_json_comma(b);
        pb_buf_putc(b, '{');
        pb_json_key(b, "address");
        pb_json_string(b, v[i].address);
        pb_json_key(b, "host");
        pb_json_string_or_null(b, v[i].err.code == PB_OK ? v[i].host : NULL);
        pb_json_key(b, "error");
        pb_json_string_or_null(b, v[i].err.code == PB_OK ? NULL : v[i].err.msg);
        pb_buf_putc(b, '}');
    }
    pb_buf_putc(b, ']');
}

static int attach(struct pb_request *rq, struct pb_buf *b, struct pb_err *err)
{
    struct pb_peers_attach w = {
        .name = pb_json_str(rq->body, "name", NULL),
        .token = pb_json_str(rq->body, "token", NULL),
        .address = pb_json_str(rq->body, "address", NULL),
        .observe = pb_json_flag(rq->body, "observe", false),
    };
    struct pb_peers_seed *seeds;
    struct pb_peers_list list;
    struct pb_peers_port port;

    pb_server_port(rq->server, &port);
    if (read_seeds(rq, &w, err) < 0 ||
        pb_peers_attach(rq->node->peers, &port, &w, rq->arena, &seeds, err) < 0)
        return -1;
    pb_peers_list(rq->node->peers, rq->arena, &list);
    pb_buf_putc(b, '{');
    pb_json_key(b, "name");
    pb_json_string(b, list.name);
    pb_json_key(b, "listening");
    pb_json_string_or_null(b, *list.address ? list.address : NULL);
    pb_json_key(b, "observer");
    pb_json_bool(b, list.observer);
    put_seeds(b, seeds, w.nseeds);
    pb_buf_putc(b, '}');
    return 0;
}

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};
    struct pb_peers_port port;

    pb_server_port(rq->server, &port);
    if (!rq->node->peers)
        pb_err_set(&err, PB_FAIL, "this node joins no clusters");
    else if (pb_json_flag(rq->body, "detach", false))
        pb_buf_puts(&b, pb_peers_detach(rq->node->peers, &port) ? "{\"detached\":true}"
                                                                    : "{\"detached\":false}");
    else
        attach(rq, &b, &err);
    if (err.code != PB_OK)
        pb_reply_error(rq, &err, -1, NULL);
    else
        pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
