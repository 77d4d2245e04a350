/*
 * GET /health - is the node there? Nothing that others should not know.
 */
#include <unistd.h>

#include "base/clock.h"
#include "host/text/json_write.h"
#include "node/http/request.h"
#include "node/parts.h"
#include "node/watchdog/journal.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_health = {
    .method = "GET",
    .path = "/health",
    .doc = "is the node there: version, pid, uptime, restarts",
    .flags = PB_ROUTE_OPEN,
    .run = run,
};

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;
    char why[64];
    time_t when = 0;
    struct pb_sql_break engine;
    unsigned restarts = pb_journal_restarts(rq->node->opts.journal, &when, why, sizeof why);

    pb_buf_puts(&b, "{\"status\":\"ok\"");
    pb_json_key(&b, "version");
    pb_json_string(&b, pb_node_version());
    pb_json_key(&b, "pid");
    pb_json_int(&b, getpid());
    pb_json_key(&b, "uptime_s");
    pb_buf_printf(&b, "%.1f", (double)(pb_clock_ns() - rq->node->started_ns) / 1e9);
    pb_json_key(&b, "restarts");
    pb_json_int(&b, (int64_t)restarts);
    if (restarts) {
        pb_json_key(&b, "restarted_at");
        pb_json_int(&b, (int64_t)when);
        pb_json_key(&b, "restarted_because");
        pb_json_string(&b, why);
    }
    pb_sql_breaks(rq->node->sql, &engine);
    pb_json_key(&b, "engine_restarts");
    pb_json_int(&b, (int64_t)engine.count);
    pb_buf_putc(&b, '}');
    pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
