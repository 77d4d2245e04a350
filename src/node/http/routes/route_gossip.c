/*
 * POST /api/cluster/gossip - what nodes of a cluster tell each other (cluster/gossip.h).
 */
#include <netdb.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "node/http/conn.h"
#include "node/parts.h"
#include "node/peers/peers.h"

static void run(struct pb_request *rq);

const struct pb_route pb_route_gossip = {
    .method = "POST",
    .path = "/api/cluster/gossip",
    .doc = "between the nodes of a cluster",
    .flags = PB_ROUTE_QUIET,
    .run = run,
    .needs = PB_RIGHT_CONTROL,
};

/* An end of the connection, without its port; "" for a Unix socket. */
static void address_of(int fd, int (*which)(int, struct sockaddr *restrict, socklen_t *restrict),
                       char *buf, size_t cap)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;

    buf[0] = '\0';
    if (which(fd, (struct sockaddr *)&at, &len) < 0 || at.ss_family == AF_UNIX ||
        getnameinfo((struct sockaddr *)&at, len, buf, (socklen_t)cap, NULL, 0, NI_NUMERICHOST) != 0)
        buf[0] = '\0';
}

static void run(struct pb_request *rq)
{
    int64_t came_ns = pb_clock_wall_ns();
    struct pb_buf b = PB_BUF_INIT;
    struct pb_err err = {0};
    char from[64], here[64];

    address_of(rq->conn->io.fd, getpeername, from, sizeof from);
    address_of(rq->conn->io.fd, getsockname, here, sizeof here);
    if (!rq->node->peers)
        pb_err_set(&err, PB_DENIED, "this node belongs to no cluster");
    else
        pb_peers_take(rq->node->peers, rq->body, from, here, came_ns, &b, &err);
    if (err.code != PB_OK)
        pb_reply_error(rq, &err, -1, NULL);
    else
        pb_reply_json(rq, &b);
    pb_buf_finish(&b);
}
