/*
 * GET /api/config - settings of a process, or of the node.
 */
#include "node/http/settings_json.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_config = {
    .method = "GET",
    .path = "/api/config",
    .doc = "settings: ?target=&key=",
    .run = run,
};

static void run(struct pb_request *rq)
{
    struct pb_err err = {0};
    struct pb_scope scope;

    if (pb_request_scope(rq, &scope, &err) < 0)
        pb_reply_error(rq, &err, -1, NULL);
    else
        pb_settings_reply(rq, &scope, pb_http_param(rq->head, "key", rq->arena));
}
