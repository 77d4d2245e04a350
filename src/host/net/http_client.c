#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/text/buf.h"
#include "host/net/http.h"
#include "host/net/http_dial.h"
#include "host/text/json.h"
#include "host/net/stream.h"
#include "host/net/tls.h"

#define NS_PER_MS 1000000ull
/* A signal may come just before the wait that it should end. */
#define CANCEL_SLICE_MS 50
#define UPGRADE_TIMEOUT_MS 20000

struct pb_http_client {
    struct pb_stream io;
    bool used; /* a question was asked on this connection */
    int connect_ms;
    char *socket, *host, *token;
    bool plain; /* the token goes along in the open; else it is proven, never sent */
    struct pb_key key; /* key of the token, unless plain */
    struct pb_http_head head;
    char *head_bytes; /* what head points into */
    char trailer[PB_HTTP_TRAILER_MAX + 1];
    char in[64 << 10];
    size_t at, len; /* bytes of in that are not dealt with */
    const struct pb_http_request *now;
    uint64_t received; /* bytes of the answer's body so far */
};

static char *copy(const char *s)
{
    char *p = s ? pb_alloc_resize(NULL, strlen(s) + 1) : NULL;

    return p ? memcpy(p, s, strlen(s) + 1) : NULL;
}

static void disconnect(struct pb_http_client *c)
{
    pb_stream_close(&c->io);
}

/* Whoever listens does not know this key. On this machine he may have asked for no token. */
static int without_key(struct pb_http_client *c, const struct pb_err *why, struct pb_err *err)
{
    bool here = pb_http_is_here(c->io.fd);

    disconnect(c);
    if (here) {
        c->io.fd = pb_http_dial_tcp(c->host, c->connect_ms, err);
        return c->io.fd < 0 ? -1 : 0;
    }
    if (why->code == PB_DENIED)
        return pb_err_set(err, PB_DENIED,
                          "%s: not permitted: wrong token. Give the right one by $PROBING_TOKEN or "
                          "--token-file; on that machine `probing token` shows it",
                          c->host);
    return pb_err_set(err, why->code, "%s: %s; --plain speaks without TLS", c->host, why->msg);
}

static int handshake(struct pb_http_client *c, struct pb_err *err)
{
    struct pb_tls_context *context = pb_tls_client(err);
    struct pb_err why = {0};

    if (!context)
        return -1;
    c->io.tls = pb_tls_connect(context, c->io.fd, &c->key);
    pb_tls_context_destroy(context);
    if (!c->io.tls)
        return pb_err_set(err, PB_FAIL, "TLS: no memory");
    if (pb_http_dial_handshake(&c->io, c->connect_ms, &why) == 0)
        return 0;
    if (why.code == PB_TIMEOUT)
        return pb_err_set(err, PB_TIMEOUT, "%s: %s", c->host, why.msg);
    return without_key(c, &why, err);
}

static int dial(struct pb_http_client *c, struct pb_err *err)
{
    c->io.fd = c->socket ? pb_http_dial_unix(c->socket, c->connect_ms, err)
                         : pb_http_dial_tcp(c->host, c->connect_ms, err);
    c->at = c->len = 0;
    c->used = false;
    if (c->io.fd < 0)
        return -1;
    if (c->socket || c->plain || !c->token || handshake(c, err) == 0)
        return 0;
    disconnect(c);
    return -1;
}

int pb_http_connect(struct pb_http_client **ret, const struct pb_http_where *where, int timeout_ms,
                    struct pb_err *err)
{
    struct pb_http_client *c = pb_alloc_resize(NULL, sizeof *c);

    memset(c, 0, sizeof *c);
    c->connect_ms = timeout_ms > 0 ? timeout_ms : 60000;
    c->socket = copy(where->socket);
    c->host = copy(where->host ? where->host : "");
    c->token = copy(where->token && *where->token ? where->token : NULL);
    c->plain = where->plain;
    c->io.fd = -1;
    c->head_bytes = pb_alloc_resize(NULL, PB_HTTP_HEAD_MAX);
    if ((c->token && !c->socket && !c->plain && pb_key_of_token(&c->key, c->token, err) < 0) ||
        dial(c, err) < 0) {
        pb_http_close(c);
        return -1;
    }
    *ret = c;
    return 0;
}

void pb_http_close(struct pb_http_client *c)
{
    if (!c)
        return;
    disconnect(c);
    free(c->socket);
    free(c->host);
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    explicit_bzero(&c->key, sizeof c->key);
    free(c->token);
    free(c->head_bytes);
    free(c);
}

/* Waits until the other side takes or sends something. */
static int wait_for(struct pb_http_client *c, short wanted, struct pb_err *err)
{
    short events = pb_stream_events(&c->io, wanted);
    uint64_t until = pb_clock_ns() + (uint64_t)c->now->timeout_ms * NS_PER_MS;

    for (;;) {
        struct pollfd p = {.fd = c->io.fd, .events = events};
        uint64_t clock = pb_clock_ns();
        int ms = -1, rc;

        if (c->now->cancelled && atomic_load(c->now->cancelled))
            return pb_err_set(err, PB_FAIL, "cancelled");
        if (c->now->timeout_ms) {
            if (clock >= until)
                return pb_err_set(err, PB_TIMEOUT, "no answer after %g s",
                                  c->now->timeout_ms / 1000.0);
            ms = (int)((until - clock) / NS_PER_MS) + 1;
        }
        if (c->now->cancelled && (ms < 0 || ms > CANCEL_SLICE_MS))
            ms = CANCEL_SLICE_MS;
        rc = poll(&p, 1, ms);
        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return pb_err_set(err, PB_FAIL, "poll: %s", strerror(errno));
    }
}

/* 1 when the other side does not take any more: it may have answered before that. */
static int send_all(struct pb_http_client *c, const char *data, size_t len, struct pb_err *err)
{
    while (len) {
        ssize_t n = pb_stream_send(&c->io, data, len);

        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return 1;
        } else if (wait_for(c, POLLOUT, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* More bytes behind those there are; 0 at the end of the connection. */
static long receive(struct pb_http_client *c, struct pb_err *err)
{
    if (c->at) {
        memmove(c->in, c->in + c->at, c->len - c->at);
        c->len -= c->at;
        c->at = 0;
    }
    for (;;) {
        ssize_t n = pb_stream_recv(&c->io, c->in + c->len, sizeof c->in - c->len);

        if (n >= 0) {
            c->len += (size_t)n;
            return n;
        }
        if (errno == ECONNRESET || errno == EPIPE)
            return 0;
        if (errno != EAGAIN && errno != EINTR)
            return pb_err_set(err, PB_FAIL, "the connection broke: %s", strerror(errno));
        if (wait_for(c, POLLIN, err) < 0)
            return -1;
    }
}

static void write_head(const struct pb_http_client *c, struct pb_buf *b, const char *method,
                       const char *path)
{
    bool nameless = c->socket || !strchr(c->host, ':') || *c->host == ':';

    pb_buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: probing\r\n", method, path,
                  nameless ? "localhost" : c->host);
    if (c->token && !c->socket && c->plain)
        pb_buf_printf(b, "Authorization: Bearer %s\r\n", c->token);
}

/* A connection that lay idle may have been closed on the other side. */
static int reconnect_if_closed(struct pb_http_client *c, struct pb_err *err)
{
    char byte;

    if (c->io.fd >= 0 && c->used &&
        (recv(c->io.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        disconnect(c);
    return c->io.fd >= 0 ? 0 : dial(c, err);
}

static int ask(struct pb_http_client *c, const struct pb_http_request *r, struct pb_err *err)
{
    struct pb_buf b = PB_BUF_INIT;
    int rc;

    write_head(c, &b, r->method, r->path);
    if (r->type)
        pb_buf_printf(&b, "Content-Type: %s\r\n", r->type);
    if (r->type || strcmp(r->method, "POST") == 0)
        pb_buf_printf(&b, "Content-Length: %zu\r\n", r->body_len);
    pb_buf_puts(&b, "\r\n");
    /* Together in one packet unless that would mean copying a lot. */
    if (r->body_len < sizeof c->in)
        pb_buf_add(&b, r->body, r->body_len);
    rc = send_all(c, b.data, b.len, err);
    if (rc == 0 && r->body_len >= sizeof c->in)
        rc = send_all(c, r->body, r->body_len, err);
    pb_buf_finish(&b);
    return rc < 0 ? -1 : 0;
}

/* Takes a complete head off the input; 0 when there is none yet. */
static int parse_head(struct pb_http_client *c, struct pb_err *err)
{
    size_t n = c->len - c->at < PB_HTTP_HEAD_MAX ? c->len - c->at : PB_HTTP_HEAD_MAX;
    long end;

    memcpy(c->head_bytes, c->in + c->at, n);
    end = pb_http_parse(&c->head, c->head_bytes, n, false);
    if (end < 0)
        return pb_err_set(err, PB_FAIL, "what answers is no HTTP server");
    c->at += (size_t)end;
    return end > 0;
}

static int read_head(struct pb_http_client *c, struct pb_err *err)
{
    for (;;) {
        int rc = c->len > c->at ? parse_head(c, err) : 0;
        long n;

        if (rc < 0)
            return -1;
        if (rc > 0 && c->head.status / 100 != 1)
            return 0;
        if (rc > 0)
            continue; /* 100: the answer proper follows */
        n = receive(c, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return pb_err_set(err, PB_FAIL,
                              c->len ? "the answer broke off"
                                     : "the connection was closed without an answer");
    }
}

/* 0 done, 1 the sink had enough. */
static int read_body(struct pb_http_client *c, pb_http_sink *sink, void *arg, struct pb_err *err)
{
    struct pb_http_body body;
    const char *piece;
    size_t len;
    long n;

    pb_http_body_init(&body, &c->head, false);
    body.trailer = c->trailer;
    if (strcmp(c->now->method, "HEAD") == 0)
        body.state = PB_BODY_DONE;
    while (body.state != PB_BODY_DONE) {
        if (c->at == c->len) {
            n = receive(c, err);
            if (n < 0)
                return -1;
            if (n == 0 && body.state == PB_BODY_REST)
                return 0;
            if (n == 0)
                return pb_err_set(err, PB_FAIL, "the answer broke off after %llu bytes",
                                  (unsigned long long)c->received);
        }
        n = pb_http_body_feed(&body, c->in + c->at, c->len - c->at, &piece, &len);
        if (n < 0)
            return pb_err_set(err, PB_FAIL, "the answer makes no sense");
        c->at += (size_t)n;
        c->received += len;
        c->trailer[body.trailer_len] = '\0';
        if (len && sink && sink(piece, len, arg) != 0)
            return 1;
    }
    return 0;
}

int pb_http_ask(struct pb_http_client *c, const struct pb_http_request *r, pb_http_sink *sink,
                void *arg, int *ret_status, struct pb_err *err)
{
    int rc;

    c->now = r;
    c->received = 0;
    c->head.nheaders = 0;
    c->trailer[0] = '\0';
    rc = reconnect_if_closed(c, err);
    if (rc == 0)
        rc = ask(c, r, err);
    c->used = true;
    if (rc == 0)
        rc = read_head(c, err);
    if (rc == 0)
        rc = read_body(c, sink, arg, err);
    if (rc != 0 || !c->head.keep_alive || (!c->head.chunked && c->head.length < 0))
        disconnect(c);
    c->now = NULL;
    if (rc < 0)
        return c->socket ? -1 : pb_err_prefix(err, "%s", c->host);
    *ret_status = c->head.status;
    return 0;
}

const char *pb_http_answered(struct pb_http_client *c, const char *name)
{
    const char *header = pb_http_header(&c->head, name);

    return header ? header : pb_http_trailer(c->trailer, name);
}

const char *pb_http_final_error(struct pb_http_client *c, struct pb_arena *a)
{
    char *text = pb_arena_strdup(a, c->trailer), *out = text;
    unsigned byte;

    if (strncmp(text, "error=", 6) != 0)
        return NULL;
    for (const char *p = text + 6; *p; p++) {
        if (*p == '%' && sscanf(p + 1, "%2x", &byte) == 1 && p[1] && p[2]) {
            *out++ = (char)byte;
            p += 2;
        } else {
            *out++ = *p;
        }
    }
    *out = '\0';
    return text;
}

int pb_http_explain(int status, const char *body, size_t len, struct pb_err *err)
{
    static const struct {
        const char *name;
        enum pb_code code;
    } codes[] = {
        {"failed", PB_FAIL},         {"usage", PB_USAGE},     {"denied", PB_DENIED},
        {"no_target", PB_NO_TARGET}, {"timeout", PB_TIMEOUT},
    };
    enum pb_code code = status == 401 || status == 403   ? PB_DENIED
                        : status == 404                  ? PB_NO_TARGET
                        : status == 408 || status == 504 ? PB_TIMEOUT
                                                         : PB_FAIL;
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_json json = {0};
    const struct pb_json *said;
    const char *name, *message;

    pb_json_parse(&arena, body, len, &json, NULL);
    said = pb_json_get(&json, "error");
    name = pb_json_str(said, "code", "");
    message = pb_json_str(said, "message", NULL);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(name, codes[i].name) == 0)
            code = codes[i].code;
    if (message)
        pb_err_set(err, code, "%s", message);
    else
        pb_err_set(err, code, "HTTP status %d (%s)", status, pb_http_reason(status));
    pb_arena_finish(&arena);
    return -1;
}

static int collect(const void *data, size_t len, void *arg)
{
    struct pb_buf *b = arg;

    pb_buf_add(b, data, len);
    return b->len > PB_HTTP_HEAD_MAX;
}

/* Byte by byte: what follows the head belongs to the stream. */
static int read_only_head(struct pb_http_client *c, struct pb_err *err)
{
    char last[4] = {0};

    c->len = 0;
    while (memcmp(last, "\r\n\r\n", 4) != 0) {
        ssize_t n = pb_stream_recv(&c->io, c->in + c->len, 1);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return pb_err_set(err, PB_FAIL, "the connection was closed without an answer");
        if (n < 0 && wait_for(c, POLLIN, err) < 0)
            return -1;
        if (n < 0)
            continue;
        memmove(last, last + 1, 3);
        last[3] = c->in[c->len++];
        if (c->len == PB_HTTP_HEAD_MAX)
            break;
    }
    c->at = 0;
    if (parse_head(c, err) <= 0)
        return pb_err_set(err, PB_FAIL, "what answers is no HTTP server");
    c->at = c->len = 0;
    return 0;
}

int pb_http_upgrade(struct pb_http_client *c, const char *path, const char *body,
                    const char *protocol, struct pb_err *err)
{
    struct pb_http_request r = {.method = "POST", .path = path, .timeout_ms = UPGRADE_TIMEOUT_MS};
    struct pb_buf b = PB_BUF_INIT;
    int fd = -1, rc;

    c->now = &r;
    rc = reconnect_if_closed(c, err);
    if (rc == 0) {
        write_head(c, &b, "POST", path);
        pb_buf_printf(&b,
                      "Connection: Upgrade\r\nUpgrade: %s\r\nContent-Type: application/json\r\n"
                      "Content-Length: %zu\r\n\r\n%s",
                      protocol, strlen(body), body);
        rc = send_all(c, b.data, b.len, err) < 0 ? -1 : 0;
        pb_buf_clear(&b);
    }
    if (rc == 0)
        rc = read_only_head(c, err);
    if (rc == 0 && c->head.status == 101) {
        fd = c->io.fd;
        if (c->io.tls)
            fd = pb_stream_unwrap(&c->io, err);
        c->io = (struct pb_stream){.fd = -1};
    } else if (rc == 0) {
        read_body(c, collect, &b, NULL);
        pb_http_explain(c->head.status, b.data ? b.data : "", b.len, err);
    } else if (!c->socket) {
        pb_err_prefix(err, "%s", c->host);
    }
    pb_buf_finish(&b);
    pb_http_close(c);
    return fd;
}
