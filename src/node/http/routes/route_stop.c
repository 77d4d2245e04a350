/*
 * POST /api/stop - ends the node.
 */
#include "node/http/request.h"
#include "node/parts.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_stop = {
    .method = "POST",
    .path = "/api/stop",
    .doc = "ends the node",
    .flags = PB_ROUTE_LOCAL,
    .run = run,
};

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_buf_puts(&b, "{\"stopping\":true}");
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
    pb_node_stop(rq->node);
}
