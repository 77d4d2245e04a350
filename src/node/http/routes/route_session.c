/*
 * GET /api/session - who the page is here: signed in or not, with which rights, at which node.
 */
#include "base/clock.h"
#include "host/text/json_write.h"
#include "node/http/conn.h"
#include "node/parts.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_session = {
    .method = "GET",
    .path = "/api/session",
    .doc = "who is asking, and what is permitted",
    .flags = PB_ROUTE_OPEN | PB_ROUTE_BROWSER,
    .run = run,
};

/* Of whoever has not signed in nothing of this machine is told. */
static void put_node(struct pb_request *rq, struct pb_buf *b)
{
    const struct pb_caller *who = &rq->conn->caller;

    pb_json_key(b, "scope");
    pb_json_string(b, pb_right_name(rq->right));
    pb_json_key(b, "token");
    pb_json_string(b, who->token);
    pb_json_key(b, "reach");
    pb_json_string_or_null(b, rq->reach);
    pb_json_key(b, "host");
    pb_json_string(b, rq->node->host);
    pb_json_key(b, "store");
    pb_json_string_or_null(b, rq->node->opts.store_dir);
    pb_json_key(b, "now_ms");
    pb_json_int(b, pb_clock_wall_ns() / 1000000);
}

static void run(struct pb_request *rq)
{
    const struct pb_conn *c = rq->conn;
    bool known = !c->tcp || c->listener->no_token || c->caller.kind != PB_CALLER_ANYONE;
    struct pb_buf b = PB_BUF_INIT;

    pb_buf_puts(&b, "{");
    pb_json_key(&b, "signed_in");
    pb_json_bool(&b, known);
    pb_json_key(&b, "asks_for_token");
    pb_json_bool(&b, c->tcp && !c->listener->no_token);
    pb_json_key(&b, "version");
    pb_json_string(&b, pb_node_version());
    if (known)
        put_node(rq, &b);
    pb_buf_putc(&b, '}');
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
