/*
 * GET /health - is the node there? Nothing that others should not know.
 */
#include <unistd.h>

#include "base/clock.h"
#include "node/http/request.h"
#include "node/node.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_health = {
    .method = "GET",
    .path = "/health",
    .doc = "is the node there: version, pid, uptime",
    .flags = PB_ROUTE_OPEN,
    .run = run,
};

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_buf_puts(&b, "{\"status\":\"ok\"");
    pb_json_key(&b, "version");
    pb_json_string(&b, pb_node_version());
    pb_json_key(&b, "pid");
    pb_json_int(&b, getpid());
    pb_json_key(&b, "uptime_s");
    pb_buf_printf(&b, "%.1f}", (double)(pb_clock_ns() - rq->node->started_ns) / 1e9);
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
