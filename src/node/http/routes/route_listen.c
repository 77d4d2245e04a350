/*
 * POST /api/listen - opens a TCP port, for a process or for the node.
 */
#include "host/text/json_write.h"
#include "node/http/request.h"
#include "node/http/server.h"
#include "node/parts.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_listen = {
    .method = "POST",
    .path = "/api/listen",
    .doc = "opens a port: {address, owner?, token?, no_token?, plain?, cert?, cert_key?, brief?, "
           "name?}",
    .flags = PB_ROUTE_LOCAL,
    .run = run,
};

/* The owner as this machine numbers it. */
static int find_owner(struct pb_request *rq, const char **ret, struct pb_err *err)
{
    const struct pb_json *v = pb_json_get(rq->body, "owner");
    struct pb_scope scope;

    *ret = NULL;
    if (!v || v->type == PB_J_NULL)
        return 0;
    if (v->type != PB_J_STRING && v->type != PB_J_INT)
        return pb_err_set(err, PB_USAGE, "owner is a process: its pid, or \"<pid>-<start>\"");
    if (pb_node_scope(rq->node, v->s, rq->arena, &scope, err) < 0)
        return -1;
    if (scope.nprocesses != 1 || !scope.processes[0].live)
        return pb_err_set(err, PB_NO_TARGET, "%.60s: no living process", v->s);
    *ret = scope.processes[0].id;
    return 0;
}

static void run(struct pb_request *rq)
{
    struct pb_listen w = {
        .address = pb_json_str(rq->body, "address", NULL),
        .token = pb_json_str(rq->body, "token", NULL),
        .no_token = pb_json_flag(rq->body, "no_token", false),
        .plain = pb_json_flag(rq->body, "plain", false) ||
                 pb_node_setting(rq->node, PB_SET_SERVE_PLAIN),
        .cert = pb_json_str(rq->body, "cert", NULL),
        .cert_key = pb_json_str(rq->body, "cert_key", NULL),
        .brief = pb_json_flag(rq->body, "brief", false),
        .name = pb_json_str(rq->body, "name", NULL),
    };
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};
    char bound[PB_HTTP_NAME_MAX];

    if (!w.address)
        pb_err_set(&err, PB_USAGE, "no \"address\" in the body");
    else if (find_owner(rq, &w.owner, &err) == 0)
        pb_server_open(rq->server, &w, bound, sizeof bound, &err);
    if (err.code != PB_OK) {
        pb_reply_error(rq, &err, -1, NULL);
        return;
    }
    pb_buf_puts(&b, "{\"listening\":");
    pb_json_string(&b, bound);
    pb_buf_putc(&b, '}');
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
