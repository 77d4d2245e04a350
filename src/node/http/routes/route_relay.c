/*
 * POST /api/relay - from here on the bytes on this connection are somebody else's: a browser's,
 * which `probing HOST:PORT web` lets through. That the connection was made with a token says
 * nothing of who sends them, so each request brings its own session.
 */
#include <string.h>
#include <strings.h>

#include "node/http/conn.h"

#define PROTOCOL "probing-page"

static void run(struct pb_request *rq);

const struct pb_route pb_route_relay = {
    .method = "POST",
    .path = "/api/relay",
    .doc = "Upgrade: " PROTOCOL ": what follows comes from a browser, which signs in itself",
    .run = run,
};

static void run(struct pb_request *rq)
{
    static const char head[] = "HTTP/1.1 101 Switching Protocols\r\nServer: probing\r\n"
                               "Connection: Upgrade\r\nUpgrade: " PROTOCOL "\r\n\r\n";
    const char *protocol = pb_http_header(rq->head, "Upgrade");
    struct pb_conn *c = rq->conn;
    struct pb_err err = {0};

    if (!rq->head->upgrade || strcasecmp(protocol, PROTOCOL) != 0) {
        pb_err_set(&err, PB_USAGE,
                   "only with the headers Connection: Upgrade and Upgrade: " PROTOCOL);
        pb_reply_error(rq, &err, -1, NULL);
        return;
    }
    c->relayed = true;
    c->reply.sent = c->reply.ended = true;
    pb_conn_send(c, head, sizeof head - 1);
}
