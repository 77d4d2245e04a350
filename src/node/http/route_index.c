/*
 * GET / - what can be asked here, for whoever comes by with a browser or curl.
 */
#include "node/http/request.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_index = {
    .method = "GET",
    .path = "/",
    .doc = "this page",
    .flags = PB_ROUTE_OPEN,
    .run = run,
};

static void run(struct pb_request *rq)
{
    struct pb_buf b = PB_BUF_INIT;

    pb_buf_puts(&b, "probing: what Python processes of this machine are doing\n\n");
    for (const struct pb_route *const *r = rq->routes; *r; r++)
        pb_buf_printf(&b, "  %-4s %-16s %s%s%s\n", (*r)->method, (*r)->path, (*r)->doc,
                      (*r)->flags & PB_ROUTE_LOCAL ? " (Unix socket only)" : "",
                      (*r)->flags & PB_ROUTE_OPEN ? " (no token)" : "");
    pb_buf_puts(&b, "\nOver TCP the others want the header Authorization: Bearer TOKEN.\n"
                    "Bodies are JSON (Content-Type: application/json), and so are answers.\n");
    pb_reply_begin(rq, 200, "text/plain; charset=utf-8");
    pb_reply_write(rq, b.data, b.len);
    pb_reply_end(rq);
    pb_buf_finish(&b);
}
