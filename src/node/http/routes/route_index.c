/*
 * GET / - the page for a browser; for curl what can be asked here.
 */
#include <string.h>

#include "node/http/page/page.h"
#include "node/http/request.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_index = {
    .method = "GET",
    .path = "/",
    .doc = "the page, for a browser; else this list",
    .flags = PB_ROUTE_OPEN | PB_ROUTE_VISIT,
    .run = run,
};

static void run(struct pb_request *rq)
{
    const char *accept = pb_http_header(rq->head, "Accept");
    struct pb_buf b = PB_BUF_INIT;

    if (accept && pb_page_find("/") && strstr(accept, "text/html")) {
        pb_page_reply(rq, pb_page_find("/"));
        return;
    }
    pb_buf_puts(&b, "probing: what Python processes of this machine are doing\n\n");
    for (const struct pb_route *const *r = rq->routes; *r; r++)
        pb_buf_printf(&b, "  %-4s %-16s %s%s%s\n", (*r)->method, (*r)->path, (*r)->doc,
                      (*r)->flags & PB_ROUTE_LOCAL ? " (Unix socket only)" : "",
                      (*r)->flags & PB_ROUTE_OPEN ? " (no token)" : "");
    pb_buf_puts(&b, "\nOver TCP the others want the header Authorization: Bearer TOKEN.\n"
                    "Bodies are JSON (Content-Type: application/json), and so are answers.\n");
    pb_reply_begin(rq, 200, "text/plain; charset=utf-8");
    pb_reply_note(rq, "Vary", "Accept");
    pb_reply_write(rq, b.data, b.len);
    pb_reply_end(rq);
    pb_buf_finish(&b);
}
