#include "cluster/fan.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/net/http.h"
#include "host/net/stream.h"
#include "host/net/tls.h"

#define NS_PER_MS 1000000ull
/* How often the flag that cancels is looked at. */
#define LOOK_MS 50

enum state { WAITS, CONNECTS, SHAKES, SENDS, READS_HEAD, READS_BODY, ENDED };

struct call {
    struct pb_fan_one *one;
    enum state state;
    struct pb_stream io;
    uint32_t events; /* events that epoll was told of */
    uint64_t began_ns, handshake_until_ns;
    size_t sent;
    struct pb_buf out; /* the whole request */
    char *in;          /* PB_HTTP_HEAD_MAX bytes: a head, then pieces of the body */
    size_t in_len;
    struct pb_http_head head;
    struct pb_http_body body;
    struct pb_buf refusal; /* text of an answer with another status */
    char *trailer;         /* what follows the body, where a note may be in it */
};

struct fan {
    const struct pb_fan_request *r;
    struct call *calls;
    size_t n, next, open, ended, answered;
    int epoll;
    struct pb_tls_context *tls;
};

static void end_call(struct fan *f, struct call *c)
{
    uint64_t in = 0, out = 0;

    if (c->io.tls)
        pb_tls_count(c->io.tls, &in, &out);
    else
        out = c->sent;
    c->one->bytes_in += in;
    c->one->bytes_out += out;
    c->one->took_ns = pb_clock_ns() - c->began_ns;
    pb_stream_close(&c->io);
    pb_buf_finish(&c->out);
    pb_buf_finish(&c->refusal);
    free(c->in);
    free(c->trailer);
    c->in = c->trailer = NULL;
    if (c->state != WAITS)
        f->open--;
    c->state = ENDED;
    f->ended++;
    f->answered += c->one->answered;
}

static void fail_call(struct fan *f, struct call *c, enum pb_code code, const char *why)
{
    if (c->one->err.code == PB_OK)
        pb_err_set(&c->one->err, code, "%s", why);
    end_call(f, c);
}

static void fail_errno(struct fan *f, struct call *c, int number)
{
    fail_call(f, c, number == ETIMEDOUT ? PB_TIMEOUT
                    : number == ECONNREFUSED || number == EHOSTUNREACH || number == ENOENT
                        ? PB_NO_TARGET
                        : PB_FAIL,
              number == ECONNREFUSED ? "nobody listens there" : strerror(number));
}

static void watch(struct fan *f, struct call *c, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};

    if (c->events == events)
        return;
    if (epoll_ctl(f->epoll, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->io.fd, &e) == 0)
        c->events = events;
}

static void watch_stream(struct fan *f, struct call *c, short wanted)
{
    watch(f, c, pb_stream_events(&c->io, wanted) & POLLOUT ? EPOLLOUT : EPOLLIN);
}

static void write_request(struct fan *f, struct call *c)
{
    const char *body = c->one->body ? c->one->body : f->r->body;
    size_t len = c->one->body ? c->one->body_len : f->r->body_len;

    pb_buf_printf(&c->out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", f->r->method,
                  f->r->path, c->one->socket ? "localhost" : c->one->address);
    if (body)
        pb_buf_printf(&c->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", len);
    pb_buf_puts(&c->out, "\r\n");
    if (body)
        pb_buf_add(&c->out, body, len);
}

/* 0 with the address; the name must be a number. */
static int address_of(const struct pb_fan_one *one, struct sockaddr_storage *ret,
                      socklen_t *ret_len, struct pb_err *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    struct sockaddr_un *local = (struct sockaddr_un *)ret;
    char host[PB_HTTP_NAME_MAX], port[8];

    memset(ret, 0, sizeof *ret);
    if (one->socket) {
        if (strlen(one->socket) >= sizeof local->sun_path)
            return pb_err_set(err, PB_USAGE, "the path of the socket is too long");
        local->sun_family = AF_UNIX;
        strcpy(local->sun_path, one->socket);
        *ret_len = sizeof *local;
        return 0;
    }
    if (pb_http_split(one->address, host, port, err) < 0)
        return -1;
    if (getaddrinfo(host, port, &want, &found) != 0)
        return pb_err_set(err, PB_USAGE, "'%.80s' is no address", one->address);
    memcpy(ret, found->ai_addr, found->ai_addrlen);
    *ret_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

static void step(struct fan *f, struct call *c);

static void open_call(struct fan *f, struct call *c)
{
    struct sockaddr_storage at;
    socklen_t len = 0;
    int one = 1;

    c->began_ns = pb_clock_ns();
    if (address_of(c->one, &at, &len, &c->one->err) < 0) {
        end_call(f, c);
        return;
    }
    c->handshake_until_ns = f->r->connect_ms ? c->began_ns + (uint64_t)f->r->connect_ms * NS_PER_MS
                                         : UINT64_MAX;
    c->io.fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    f->open++;
    c->state = CONNECTS;
    if (c->io.fd < 0) {
        fail_errno(f, c, errno);
        return;
    }
    if (!c->one->socket)
        setsockopt(c->io.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->io.fd, (struct sockaddr *)&at, len) < 0 && errno != EINPROGRESS) {
        fail_errno(f, c, errno);
        return;
    }
    c->in = pb_alloc_resize(NULL, PB_HTTP_HEAD_MAX);
    watch(f, c, EPOLLOUT);
}

/* The address under which the other side sees us, unless somebody translates it. */
static void note_own_address(struct call *c)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof own;

    c->one->own[0] = '\0';
    if (!c->one->socket && getsockname(c->io.fd, (struct sockaddr *)&own, &len) == 0)
        getnameinfo((struct sockaddr *)&own, len, c->one->own, sizeof c->one->own, NULL, 0,
                    NI_NUMERICHOST);
}

static void connected(struct fan *f, struct call *c)
{
    int number = 0;
    socklen_t len = sizeof number;

    if (getsockopt(c->io.fd, SOL_SOCKET, SO_ERROR, &number, &len) < 0 || number) {
        fail_errno(f, c, number ? number : errno);
        return;
    }
    write_request(f, c);
    note_own_address(c);
    c->state = SENDS;
    if (!c->one->socket) {
        c->io.tls = f->tls ? pb_tls_connect(f->tls, c->io.fd, f->r->key) : NULL;
        c->state = SHAKES;
    }
    if (!c->one->socket && !c->io.tls)
        fail_call(f, c, PB_FAIL, f->tls ? "TLS: no memory" : "there is no token for it");
    else
        step(f, c);
}

static void handshake(struct fan *f, struct call *c)
{
    int rc = pb_tls_handshake(c->io.tls, &c->one->err);

    if (rc > 0) {
        watch_stream(f, c, POLLIN);
    } else if (rc < 0) {
        if (c->one->err.code == PB_DENIED) {
            c->one->err = (struct pb_err){0};
            pb_err_set(&c->one->err, PB_DENIED, "it does not have this token");
        }
        end_call(f, c);
    } else {
        c->state = SENDS;
        step(f, c);
    }
}

static void send_more(struct fan *f, struct call *c)
{
    /* Before the first byte goes: what is measured with it must not come out too short. */
    if (!c->one->sent_ns)
        c->one->sent_ns = pb_clock_wall_ns();
    while (c->sent < c->out.len) {
        ssize_t n = pb_stream_send(&c->io, c->out.data + c->sent, c->out.len - c->sent);

        if (n > 0) {
            c->sent += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            watch_stream(f, c, POLLOUT);
            return;
        } else if (n < 0 && errno != EINTR) {
            break; /* it may have answered before it closed */
        }
    }
    c->state = READS_HEAD;
    step(f, c);
}

static void keep_note(struct call *c, const char *text)
{
    if (text)
        snprintf(c->one->note, sizeof c->one->note, "%s", text);
}

/* The answer is complete, or its connection has ended. */
static void conclude(struct fan *f, struct call *c)
{
    if (c->body.state != PB_BODY_DONE && c->body.state != PB_BODY_REST) {
        fail_call(f, c, PB_FAIL, "its answer broke off");
        return;
    }
    if (c->trailer) {
        c->trailer[c->body.trailer_len] = '\0';
        keep_note(c, pb_http_trailer(c->trailer, f->r->note_header));
    }
    if (c->head.status == 200)
        c->one->answered = true;
    else
        pb_http_explain(c->head.status, c->refusal.data ? c->refusal.data : "", c->refusal.len,
                        &c->one->err);
    end_call(f, c);
}

/* False when the call is over. */
static bool take_body(struct fan *f, struct call *c, const char *data, size_t len)
{
    while (len && c->body.state != PB_BODY_DONE) {
        const char *piece;
        size_t piece_len;
        long n = pb_http_body_feed(&c->body, data, len, &piece, &piece_len);

        if (n < 0) {
            fail_call(f, c, PB_FAIL, "its answer makes no sense");
            return false;
        }
        if (piece_len && c->head.status == 200) {
            if (c->one->sink && c->one->sink(piece, piece_len, c->one->arg, &c->one->err) != 0) {
                fail_call(f, c, PB_FAIL, "its answer was refused");
                return false;
            }
        } else if (piece_len && c->refusal.len < PB_FAN_ERROR_MAX) {
            pb_buf_add(&c->refusal, piece, piece_len);
        }
        data += n;
        len -= (size_t)n;
    }
    if (c->body.state != PB_BODY_DONE)
        return true;
    conclude(f, c);
    return false;
}

/* False when the call is over. */
static bool take_head(struct fan *f, struct call *c)
{
    size_t len = c->in_len;
    char *copy = pb_alloc_resize(NULL, len + 1);
    long n;
    bool open;

    /* Parsing works in place, and what is not complete must stay as it is. */
    memcpy(copy, c->in, len);
    n = pb_http_parse(&c->head, copy, len, false);
    if (n < 0 || (n == 0 && len == PB_HTTP_HEAD_MAX)) {
        free(copy);
        fail_call(f, c, PB_FAIL, "what answers is no node");
        return false;
    }
    if (n == 0) {
        free(copy);
        return true;
    }
    c->state = READS_BODY;
    pb_http_body_init(&c->body, &c->head, false);
    if (f->r->note_header) {
        keep_note(c, pb_http_header(&c->head, f->r->note_header));
        c->body.trailer = c->trailer = pb_alloc_resize(NULL, PB_HTTP_TRAILER_MAX + 1);
    }
    c->in_len = 0;
    if (c->body.state == PB_BODY_DONE) {
        conclude(f, c);
        open = false;
    } else {
        open = take_body(f, c, copy + n, len - (size_t)n);
    }
    free(copy);
    return open;
}

static void read_more(struct fan *f, struct call *c)
{
    for (;;) {
        bool heading = c->state == READS_HEAD;
        size_t room = PB_HTTP_HEAD_MAX - (heading ? c->in_len : 0);
        char *to = c->in + (heading ? c->in_len : 0);
        ssize_t n = pb_stream_recv(&c->io, to, room);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            watch_stream(f, c, POLLIN);
            return;
        }
        if (n <= 0) {
            if (heading)
                fail_call(f, c, PB_FAIL, "the connection was closed without an answer");
            else
                conclude(f, c);
            return;
        }
        if (!c->io.tls)
            c->one->bytes_in += (uint64_t)n;
        if (!c->one->received_ns)
            c->one->received_ns = pb_clock_wall_ns();
        if (heading)
            c->in_len += (size_t)n;
        if (!(heading ? take_head(f, c) : take_body(f, c, to, (size_t)n)))
            return;
    }
}

static void step(struct fan *f, struct call *c)
{
    switch (c->state) {
    case CONNECTS:
        connected(f, c);
        break;
    case SHAKES:
        handshake(f, c);
        break;
    case SENDS:
        send_more(f, c);
        break;
    case READS_HEAD:
    case READS_BODY:
        read_more(f, c);
        break;
    case WAITS:
    case ENDED:
        break;
    }
}

static bool is_cancelled(const struct fan *f)
{
    return f->r->cancelled && atomic_load(f->r->cancelled);
}

/* Whose time is up; returns when to look again, monotonic. */
static uint64_t keep_time(struct fan *f)
{
    uint64_t now = pb_clock_ns(), next = f->r->deadline_ns;
    bool over = now >= f->r->deadline_ns, cancelled = is_cancelled(f);

    for (size_t i = 0; i < f->n; i++) {
        struct call *c = &f->calls[i];
        bool handshake = c->state == CONNECTS || c->state == SHAKES;

        if (c->state == ENDED)
            continue;
        if (cancelled) {
            fail_call(f, c, PB_FAIL, "cancelled");
        } else if (over) {
            fail_call(f, c, PB_TIMEOUT,
                      c->state == WAITS  ? "there was no time left to ask it"
                      : handshake         ? "does not answer"
                      : c->one->received_ns ? "was still answering when the time was up"
                                            : "no answer in time");
        } else if (handshake && now >= c->handshake_until_ns) {
            fail_call(f, c, PB_TIMEOUT, "does not answer");
        } else if (handshake && c->handshake_until_ns < next) {
            next = c->handshake_until_ns;
        }
    }
    return next;
}

static void round_of_events(struct fan *f)
{
    uint64_t next = keep_time(f), now = pb_clock_ns();
    struct epoll_event events[64];
    int ms, n;

    while (f->open < PB_FAN_OPEN && f->next < f->n) {
        struct call *c = &f->calls[f->next++];

        if (c->state == WAITS)
            open_call(f, c);
    }
    if (f->ended == f->n)
        return;
    ms = next <= now ? 0 : (int)((next - now) / NS_PER_MS) + 1;
    if (f->r->cancelled && ms > LOOK_MS)
        ms = LOOK_MS;
    n = epoll_wait(f->epoll, events, 64, ms);
    for (int i = 0; i < n; i++)
        step(f, events[i].data.ptr);
}

size_t pb_fan_ask(struct pb_fan_one *v, size_t n, const struct pb_fan_request *r)
{
    struct fan f = {.r = r, .n = n};
    struct pb_err err = {0};

    if (!n)
        return 0;
    f.calls = pb_alloc_resize(NULL, n * sizeof *f.calls);
    memset(f.calls, 0, n * sizeof *f.calls);
    for (size_t i = 0; i < n; i++) {
        f.calls[i].one = &v[i];
        f.calls[i].io.fd = -1;
    }
    f.epoll = epoll_create1(EPOLL_CLOEXEC);
    f.tls = r->key ? pb_tls_client(&err) : NULL;
    if (f.epoll < 0 || (r->key && !f.tls))
        for (size_t i = 0; i < n; i++)
            fail_call(&f, &f.calls[i], PB_FAIL, err.code ? err.msg : strerror(errno));
    while (f.ended < n)
        round_of_events(&f);
    pb_tls_context_destroy(f.tls);
    if (f.epoll >= 0)
        close(f.epoll);
    free(f.calls);
    return f.answered;
}
