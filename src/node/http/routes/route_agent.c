/*
 * POST /api/agent - the agent's own protocol (base/wire.h) through this connection, byte by byte.
 */
#include <string.h>
#include <strings.h>

#include "host/net/agent_socket.h"
#include "host/net/stream.h"
#include "node/http/conn.h"
#include "node/http/process_agent.h"

#define PROTOCOL "probing-agent"

static void run(struct pb_request *rq);

const struct pb_route pb_route_agent = {
    .method = "POST",
    .path = "/api/agent",
    .doc = "Upgrade: " PROTOCOL " to the agent: {target?, inject?}; inject loads it first",
    .run = run,
    .needs = PB_RIGHT_CONTROL,
};

/* The greeting was read when the agent was opened; the client is to see it, too. */
static int send_hello(struct pb_request *rq, const struct pb_agent *agent)
{
    struct pb_wire_head h = {
        .magic = PB_WIRE_MAGIC, .type = PB_WIRE_HELLO, .len = (uint32_t)strlen(agent->hello)};

    return pb_conn_send(rq->conn, &h, sizeof h) < 0 ||
                   pb_conn_send(rq->conn, agent->hello, h.len) < 0
               ? -1
               : 0;
}

static void tunnel(struct pb_request *rq, struct pb_agent *agent)
{
    struct pb_stream *client;
    const void *early;
    size_t len;

    if (pb_reply_upgrade(rq, PROTOCOL, &client, &early, &len) < 0 || send_hello(rq, agent) < 0)
        return;
    pb_request_watch(rq, agent->fd);
    pb_stream_relay(client, agent->fd, early, len, rq->gone);
    pb_request_watch(rq, -1);
}

static void run(struct pb_request *rq)
{
    const char *protocol = pb_http_header(rq->head, "Upgrade");
    struct pb_agent agent = {.fd = -1};
    struct pb_err err = {0};
    pid_t pid;

    if (!rq->head->upgrade || strcasecmp(protocol, PROTOCOL) != 0)
        pb_err_set(&err, PB_USAGE,
                   "only with the headers Connection: Upgrade and Upgrade: " PROTOCOL);
    else if (pb_request_process(rq, &pid, &err) == 0)
        pb_request_agent(rq, pid, pb_json_flag(rq->body, "inject", false), &agent, &err);
    if (err.code != PB_OK)
        pb_reply_error(rq, &err, -1, NULL);
    else
        tunnel(rq, &agent);
    pb_agent_close(&agent);
}
