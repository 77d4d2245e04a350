/*
 * GET /assets/… - scripts and styles of the page. Nothing in them is secret.
 */
#include "node/http/page/page.h"
#include "node/http/request.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_page = {
    .method = "GET",
    .path = "/assets/",
    .doc = "scripts and styles of the page",
    .flags = PB_ROUTE_OPEN | PB_ROUTE_BELOW,
    .run = run,
};

static void run(struct pb_request *rq)
{
    const struct pb_page_file *f = pb_page_find(rq->head->path);
    struct pb_err err = {0};

    if (f) {
        pb_page_reply(rq, f);
        return;
    }
    pb_err_set(&err, PB_NO_TARGET, "no %.100s here: it is of another version; load the page again",
               rq->head->path);
    pb_reply_error(rq, &err, -1, NULL);
}
