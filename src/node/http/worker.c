/*
 * worker.c - answering one request, on a thread of its own.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "host/os/signals.h"
#include "node/http/conn.h"

/* More bytes of the request behind those in c->in; -1 when none come in time. */
static int receive(struct pb_conn *c, size_t head_end)
{
    if (c->at == c->len)
        c->at = c->len = head_end;
    for (;;) {
        ssize_t n = pb_stream_recv(&c->io, c->in + c->len, sizeof c->in - c->len);
        struct pollfd in = {.fd = c->io.fd, .events = pb_stream_events(&c->io, POLLIN)};

        if (n > 0) {
            c->len += (size_t)n;
            return 0;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR) ||
            (errno == EAGAIN && poll(&in, 1, c->server->limits.body) == 0))
            return -1;
    }
}

/* 0, or the status to answer. */
static int read_body(struct pb_conn *c, struct pb_buf *body)
{
    uint64_t until = pb_clock_ns() + 6ull * (uint64_t)c->server->limits.body * 1000000;
    size_t head_end = c->at;
    struct pb_http_body b;

    pb_http_body_init(&b, &c->head, true);
    if (c->head.expect_continue && b.state != PB_BODY_DONE && c->at == c->len &&
        pb_conn_send(c, "HTTP/1.1 100 Continue\r\n\r\n", 25) < 0)
        return 408;
    while (b.state != PB_BODY_DONE) {
        const char *piece;
        size_t len;
        long n;

        /* Each wait is bounded, and so is their sum. */
        if (c->at == c->len && (receive(c, head_end) < 0 || pb_clock_ns() > until))
            return 408;
        n = pb_http_body_feed(&b, c->in + c->at, c->len - c->at, &piece, &len);
        if (n < 0)
            return 400;
        if (body->len + len > PB_HTTP_BODY_MAX)
            return 413;
        pb_buf_add(body, piece, len);
        c->at += (size_t)n;
    }
    return 0;
}

static const char *code_of(int status)
{
    return status == 413 ? "too_large" : status == 408 ? "timeout" : "usage";
}

/* The body as JSON. False when the request was answered with what is wrong with it. */
static bool prepare(struct pb_request *rq, struct pb_json *json, struct pb_buf *text)
{
    struct pb_err err = {0};
    int status = read_body(rq->conn, text);

    if (status) {
        pb_conn_refuse(rq->conn, status, code_of(status),
                       status == 413   ? "the body is longer than 16 MB"
                       : status == 408 ? "the body did not come in time"
                                       : "the chunks of the body make no sense",
                       NULL);
        return false;
    }
    /* An empty body stands for an object with nothing in it. */
    json->type = PB_J_OBJECT;
    if (text->len && pb_json_parse(rq->arena, text->data, text->len, json, &err) < 0) {
        pb_reply_error(rq, &err, -1, NULL);
        return false;
    }
    if (json->type != PB_J_OBJECT) {
        pb_err_set(&err, PB_USAGE, "the body is not a JSON object");
        pb_reply_error(rq, &err, -1, NULL);
        return false;
    }
    rq->body = json;
    return true;
}

/* For the audit: a user and process of this machine, or an address and a token. */
static void name_client(const struct pb_conn *c, struct pb_agent_client *ret)
{
    char address[72];

    if (!c->tcp) {
        *ret = (struct pb_agent_client){.has_uid = true, .uid = c->caller.uid,
                                        .pid = c->caller.pid};
        return;
    }
    *ret = (struct pb_agent_client){0};
    pb_address_text(&c->from, address, sizeof address);
    snprintf(ret->name, sizeof ret->name, "%s, %s%s", address,
             c->caller.token[0] ? "token " : "no token", c->caller.token);
}

static void answer(struct pb_conn *c)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_buf text = PB_BUF_INIT;
    struct pb_json json = {0};
    struct pb_request rq = {
        .server = c->server,
        .node = c->server->node,
        .routes = c->server->routes,
        .head = &c->head,
        .arena = &arena,
        .local = !c->tcp,
        .gone = &c->gone,
        .conn = c,
        .reach = pb_listener_reach(c->server, c->listener, &c->caller, &arena),
        .right = c->caller.right,
    };
    bool posts = strcmp(c->head.method, "POST") == 0;

    name_client(c, &rq.client);
    pb_reply_begin(&rq, 500, "application/json");
    if (!posts || prepare(&rq, &json, &text)) {
        c->route->run(&rq);
        if (!c->reply.ended) {
            /* A stream without its end: the reader must not take it for whole. */
            struct linger now = {.l_onoff = 1};

            setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
            atomic_store(&c->gone, true);
        }
    }
    pb_buf_finish(&text);
    pb_buf_finish(&c->reply.out);
    pb_buf_finish(&c->reply.notes);
    pb_arena_finish(&arena);
}

static void *run(void *arg)
{
    struct pb_conn *c = arg;
    struct pb_server *s = c->server;

    answer(c);
    /* From here on the connection is the loop's again, which joins this thread. */
    pthread_mutex_lock(&s->lock);
    c->done = s->done;
    s->done = c;
    pb_server_wake(s);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

int pb_conn_answer(struct pb_conn *c)
{
    sigset_t before;
    int rc;

    /* Signals are for the thread that started the server. */
    pb_signals_block(&before);
    rc = pthread_create(&c->thread, NULL, run, c);
    pb_signals_restore(&before);
    return rc ? -1 : 0;
}

void pb_conn_abandon(struct pb_conn *c)
{
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->gone, true);
    if (c->watched >= 0)
        shutdown(c->watched, SHUT_RDWR);
    pthread_mutex_unlock(&c->lock);
}
