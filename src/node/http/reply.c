#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "host/text/json_write.h"
#include "node/http/conn.h"

/* Nothing of ours is to be guessed at, kept, run or framed by a browser. */
#define COMMON_HEADERS                                                                             \
    "Server: probing\r\nCache-Control: %s\r\nX-Content-Type-Options: nosniff\r\n"                  \
    "Content-Security-Policy: %s\r\n"
#define USUAL_CACHE "no-store"
#define USUAL_POLICY "default-src 'none'; frame-ancestors 'none'"

/* Sends all of it, or finds that the reader is gone: closed, or taking nothing for too long. */
int pb_conn_send(struct pb_conn *c, const void *data, size_t len)
{
    int patience = c->tcp ? c->server->limits.write : c->server->limits.local_write;
    const char *p = data;

    while (len && !atomic_load(&c->gone)) {
        ssize_t n = pb_stream_send(&c->io, p, len);
        struct pollfd out = {.fd = c->io.fd};

        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            out.events = pb_stream_events(&c->io, POLLOUT);
            if (poll(&out, 1, patience) == 0)
                atomic_store(&c->gone, true);
        } else if (n < 0 && errno != EINTR) {
            atomic_store(&c->gone, true);
        }
    }
    return len ? -1 : 0;
}

static void write_head(const struct pb_conn *c, struct pb_buf *b, int status, const char *type)
{
    const struct pb_reply *r = &c->reply;

    pb_buf_printf(b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n" COMMON_HEADERS "%s", status,
                  pb_http_reason(status), type, r->cache ? r->cache : USUAL_CACHE,
                  r->policy ? r->policy : USUAL_POLICY,
                  c->close           ? "Connection: close\r\n"
                  : c->head.http_1_0 ? "Connection: keep-alive\r\n"
                                     : "");
}

void pb_reply_begin(struct pb_request *rq, int status, const char *type)
{
    struct pb_reply *r = &rq->conn->reply;

    if (r->sent)
        return;
    r->status = status;
    r->type = type;
    r->cache = r->policy = NULL;
    pb_buf_clear(&r->out);
    pb_buf_clear(&r->notes);
}

void pb_reply_policy(struct pb_request *rq, const char *cache, const char *content_security)
{
    rq->conn->reply.cache = cache;
    rq->conn->reply.policy = content_security;
}

bool pb_reply_sent(const struct pb_request *rq)
{
    return rq->conn->reply.sent;
}

int pb_reply_flush(struct pb_request *rq)
{
    struct pb_conn *c = rq->conn;
    struct pb_reply *r = &c->reply;
    struct pb_buf wire = PB_BUF_INIT;
    int rc;

    if (!r->sent) {
        /* An old client cannot read chunks: the end of the connection is the end. */
        r->chunked = !c->head.http_1_0;
        c->close |= !r->chunked;
        write_head(c, &wire, r->status, r->type);
        pb_buf_add(&wire, r->notes.data, r->notes.len);
        pb_buf_clear(&r->notes);
        pb_buf_puts(&wire, r->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
        r->sent = true;
    }
    if (r->out.len && !r->head_only) {
        if (r->chunked)
            pb_buf_printf(&wire, "%zx\r\n", r->out.len);
        pb_buf_add(&wire, r->out.data, r->out.len);
        if (r->chunked)
            pb_buf_puts(&wire, "\r\n");
    }
    pb_buf_clear(&r->out);
    rc = wire.len ? pb_conn_send(c, wire.data, wire.len) : 0;
    pb_buf_finish(&wire);
    return rc;
}

int pb_reply_write(struct pb_request *rq, const void *data, size_t len)
{
    struct pb_reply *r = &rq->conn->reply;

    if (atomic_load(&rq->conn->gone))
        return -1;
    pb_buf_add(&r->out, data, len);
    return r->out.len >= PB_REPLY_PIECE ? pb_reply_flush(rq) : 0;
}

void pb_reply_whole(struct pb_request *rq, const void *data, size_t len)
{
    pb_buf_add(&rq->conn->reply.out, data, len);
}

int pb_reply_puts(struct pb_request *rq, const char *text)
{
    return pb_reply_write(rq, text, strlen(text));
}

void pb_reply_end(struct pb_request *rq)
{
    struct pb_conn *c = rq->conn;
    struct pb_reply *r = &c->reply;
    struct pb_buf wire = PB_BUF_INIT;

    if (r->ended)
        return;
    r->ended = true;
    if (r->sent) {
        pb_reply_flush(rq);
        if (r->chunked && !r->head_only) {
            pb_buf_puts(&wire, "0\r\n");
            pb_buf_add(&wire, r->notes.data, r->notes.len);
            pb_buf_puts(&wire, "\r\n");
            pb_conn_send(c, wire.data, wire.len);
            pb_buf_finish(&wire);
        }
        return;
    }
    write_head(c, &wire, r->status, r->type);
    pb_buf_add(&wire, r->notes.data, r->notes.len);
    if (r->status != 304)
        pb_buf_printf(&wire, "Content-Length: %zu\r\n", r->out.len);
    pb_buf_puts(&wire, "\r\n");
    if (!r->head_only)
        pb_buf_add(&wire, r->out.data, r->out.len);
    r->sent = true;
    pb_conn_send(c, wire.data, wire.len);
    pb_buf_finish(&wire);
}

static void write_break(struct pb_buf *wire, const struct pb_err *err, long at,
                        const char *nearest)
{
    struct pb_buf json = PB_BUF_INIT;

    pb_reply_error_json(&json, pb_reply_code(err->code), err->msg, at, nearest);
    pb_buf_puts(wire, "1;error=");
    pb_http_encode(wire, json.data);
    pb_buf_puts(wire, "\r\n");
    pb_buf_finish(&json);
}

void pb_reply_break(struct pb_request *rq, const struct pb_err *err, long at, const char *nearest)
{
    struct pb_conn *c = rq->conn;
    struct pb_buf wire = PB_BUF_INIT;

    if (c->reply.ended || !c->reply.sent || !c->reply.chunked || pb_reply_flush(rq) < 0)
        return; /* all that is left is to hang up */
    write_break(&wire, err, at, nearest);
    /* Closed in good order: a reset could overtake the reason. */
    c->reply.ended = pb_conn_send(c, wire.data, wire.len) == 0;
    c->close = true;
    pb_buf_finish(&wire);
}

void pb_conn_break(struct pb_conn *c, const struct pb_err *err)
{
    struct pb_buf wire = PB_BUF_INIT;

    if (!c->reply.chunked)
        return;
    write_break(&wire, err, -1, NULL);
    if (pb_stream_send(&c->io, wire.data, wire.len) < 0)
        atomic_store(&c->gone, true);
    pb_buf_finish(&wire);
}

void pb_reply_note(struct pb_request *rq, const char *name, const char *value)
{
    struct pb_buf *b = &rq->conn->reply.notes;

    pb_buf_printf(b, "%s: ", name);
    for (; *value; value++)
        pb_buf_putc(b, (unsigned char)*value < 0x20 || *value == 0x7f ? ' ' : *value);
    pb_buf_puts(b, "\r\n");
}

void pb_reply_json(struct pb_request *rq, const struct pb_buf *json)
{
    pb_reply_begin(rq, 200, "application/json");
    pb_reply_write(rq, json->data, json->len);
    pb_reply_puts(rq, "\n");
    pb_reply_end(rq);
}

void pb_reply_error_json(struct pb_buf *b, const char *code, const char *message, long at,
                         const char *nearest)
{
    pb_buf_puts(b, "{\"error\":{");
    pb_json_key(b, "code");
    pb_json_string(b, code);
    pb_json_key(b, "message");
    pb_json_string(b, message);
    pb_json_key(b, "at");
    if (at >= 0)
        pb_json_int(b, at);
    else
        pb_buf_puts(b, "null");
    pb_json_key(b, "nearest");
    pb_json_string(b, nearest ? nearest : "");
    pb_buf_puts(b, "}}");
}

const char *pb_reply_code(enum pb_code code)
{
    static const char *const names[] = {
        [PB_OK] = "ok",         [PB_FAIL] = "failed",         [PB_USAGE] = "usage",
        [PB_DENIED] = "denied", [PB_NO_TARGET] = "no_target", [PB_TIMEOUT] = "timeout",
    };

    return names[code];
}

void pb_reply_error(struct pb_request *rq, const struct pb_err *err, long at, const char *nearest)
{
    static const int status[] = {
        [PB_OK] = 500,     [PB_FAIL] = 400,      [PB_USAGE] = 400,
        [PB_DENIED] = 403, [PB_NO_TARGET] = 404, [PB_TIMEOUT] = 504,
    };
    struct pb_buf b = PB_BUF_INIT;

    if (pb_reply_sent(rq))
        return; /* the connection is broken off instead */
    pb_reply_error_json(&b, pb_reply_code(err->code), err->msg, at, nearest);
    pb_buf_putc(&b, '\n');
    pb_reply_begin(rq, status[err->code], "application/json");
    pb_reply_write(rq, b.data, b.len);
    pb_reply_end(rq);
    pb_buf_finish(&b);
}

void pb_conn_refuse(struct pb_conn *c, int status, const char *code, const char *message,
                    const char *header)
{
    struct pb_buf body = PB_BUF_INIT, wire = PB_BUF_INIT;

    c->close = true;
    pb_reply_error_json(&body, code, message, -1, NULL);
    pb_buf_putc(&body, '\n');
    write_head(c, &wire, status, "application/json");
    pb_buf_printf(&wire, "%sContent-Length: %zu\r\n\r\n", header ? header : "", body.len);
    if (!c->reply.head_only)
        pb_buf_add(&wire, body.data, body.len);
    /* Called from the loop, which waits for nobody: it fits, or the client does not read. */
    if (pb_stream_send(&c->io, wire.data, wire.len) < (ssize_t)wire.len)
        atomic_store(&c->gone, true);
    pb_buf_finish(&wire);
    pb_buf_finish(&body);
}

int pb_reply_upgrade(struct pb_request *rq, const char *protocol, struct pb_stream **ret,
                     const void **ret_early, size_t *ret_early_len)
{
    struct pb_conn *c = rq->conn;
    char head[200];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 101 Switching Protocols\r\nServer: probing\r\n"
                     "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n",
                     protocol);

    c->reply.sent = c->reply.ended = c->reply.upgraded = true;
    c->close = true;
    *ret = &c->io;
    *ret_early = c->in + c->at;
    *ret_early_len = c->len - c->at;
    c->at = c->len;
    return pb_conn_send(c, head, (size_t)n);
}

void pb_request_watch(struct pb_request *rq, int fd)
{
    struct pb_conn *c = rq->conn;

    pthread_mutex_lock(&c->lock);
    c->watched = fd;
    if (fd >= 0 && atomic_load(&c->gone))
        shutdown(fd, SHUT_RDWR);
    pthread_mutex_unlock(&c->lock);
}
