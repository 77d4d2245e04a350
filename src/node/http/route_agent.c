/*
 * POST /api/agent - the agent's own protocol (base/wire.h) through this connection, byte by byte.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "host/agent.h"
#include "node/http/process_agent.h"
#include "node/http/request.h"

#define PROTOCOL "probing-agent"

static void run(struct pb_request *rq);

const struct pb_route pb_route_agent = {
    .method = "POST",
    .path = "/api/agent",
    .doc = "Upgrade: " PROTOCOL " to the agent: {target?, inject?}; inject loads it first",
    .run = run,
    .needs = PB_RIGHT_CONTROL,
};

/* One direction: bytes that were read and not yet written. */
struct pipe_end {
    char bytes[64 << 10];
    size_t at, len;
};

/* False when the direction is at its end. */
static bool pump(struct pipe_end *p, int from, int to, bool readable)
{
    ssize_t n;

    if (p->at == p->len && readable) {
        n = recv(from, p->bytes, sizeof p->bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        p->at = 0;
        p->len = n > 0 ? (size_t)n : 0;
    }
    while (p->at < p->len) {
        n = send(to, p->bytes + p->at, p->len - p->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        p->at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Until either side closes. */
static void relay(struct pb_request *rq, int client, int agent, struct pipe_end *up,
                  struct pipe_end *down)
{
    bool open = pump(up, client, agent, false) && pump(down, agent, client, false);

    while (open && !atomic_load(rq->gone)) {
        struct pollfd p[2] = {{.fd = client}, {.fd = agent}};

        p[0].events =
            (short)((up->at == up->len ? POLLIN : 0) | (down->at < down->len ? POLLOUT : 0));
        p[1].events =
            (short)((down->at == down->len ? POLLIN : 0) | (up->at < up->len ? POLLOUT : 0));
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return;
        open = pump(up, client, agent, p[0].revents) && pump(down, agent, client, p[1].revents);
    }
}

/* The greeting was read when the agent was opened; the client is to see it, too. */
static void put_hello(struct pipe_end *down, const struct pb_agent *agent)
{
    struct pb_wire_head h = {
        .magic = PB_WIRE_MAGIC, .type = PB_WIRE_HELLO, .len = (uint32_t)strlen(agent->hello)};

    memcpy(down->bytes, &h, sizeof h);
    memcpy(down->bytes + sizeof h, agent->hello, h.len);
    down->len = sizeof h + h.len;
}

static void tunnel(struct pb_request *rq, struct pb_agent *agent)
{
    struct pipe_end up = {.len = 0}, down = {.len = 0};
    const void *early;
    size_t len;
    int client = pb_reply_upgrade(rq, PROTOCOL, &early, &len);

    if (client < 0 || len > sizeof up.bytes)
        return;
    memcpy(up.bytes, early, len);
    up.len = len;
    put_hello(&down, agent);
    pb_request_watch(rq, agent->fd);
    relay(rq, client, agent->fd, &up, &down);
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
