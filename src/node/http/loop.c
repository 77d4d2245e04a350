/*
 * loop.c - one thread accepts, reads heads, keeps the time and notices who went away.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/http/conn.h"
#include "node/http/guard.h"

#define NS_PER_MS 1000000ull
#define REVIEW_MS 1000

static uint64_t in_ms(int ms)
{
    return pb_clock_ns() + (uint64_t)ms * NS_PER_MS;
}

void pb_server_wake(struct pb_server *s)
{
    uint64_t one = 1;

    if (write(s->wake, &one, sizeof one) < 0)
        return; /* it is full, so the loop is awake anyway */
}

static void watch(struct pb_conn *c, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};

    epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->io.fd, &e);
}

/* Closed when this round is over. */
static void close_soon(struct pb_conn *c)
{
    c->state = PB_CONN_LINGER;
    c->deadline = 0;
    watch(c, EPOLLONESHOT);
}

void pb_conn_linger(struct pb_conn *c)
{
    if (atomic_load(&c->gone) || pb_stream_end(&c->io) < 0) {
        close_soon(c);
        return;
    }
    c->state = PB_CONN_LINGER;
    c->deadline = in_ms(c->server->limits.linger);
    watch(c, EPOLLIN | EPOLLRDHUP);
}

static void drain(struct pb_conn *c)
{
    char bin[16 << 10];
    ssize_t n;
    int rounds = 8;

    while ((n = recv(c->io.fd, bin, sizeof bin, MSG_DONTWAIT)) > 0 && --rounds > 0)
        continue;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_soon(c);
}

static void start(struct pb_conn *c)
{
    struct pb_server *s = c->server;

    c->state = PB_CONN_BUSY;
    c->deadline = UINT64_MAX;
    s->busy[c->tcp]++;
    atomic_fetch_add(&s->active, 1);
    watch(c, EPOLLRDHUP | EPOLLONESHOT);
    if (pb_conn_answer(c) == 0)
        return;
    s->busy[c->tcp]--;
    atomic_fetch_sub(&s->active, 1);
    pb_conn_refuse(c, 503, "busy", "no thread to be had; try again", "Retry-After: 1\r\n");
    pb_conn_linger(c);
}

static void refuse_head(struct pb_conn *c, int status)
{
    const char *what = status == 414   ? "the path is too long"
                       : status == 431 ? "the headers are too long or too many"
                       : status == 501 ? "a transfer encoding that is not known here"
                       : status == 505 ? "HTTP/1.1 is spoken here"
                       : status == 408 ? "the request did not come in time"
                                       : "this is no HTTP request";

    pb_conn_refuse(c, status, status == 408 ? "timeout" : "usage", what, NULL);
    pb_conn_linger(c);
}

/* The head is there: may it be answered, and when? */
static void admit(struct pb_conn *c)
{
    struct pb_refusal no;

    if (pb_guard_check(c, &no) < 0 && no.wait_ns) {
        c->state = PB_CONN_SLOW;
        c->deadline = no.wait_ns;
        watch(c, EPOLLRDHUP | EPOLLONESHOT);
    } else if (no.status) {
        pb_conn_refuse(c, no.status, no.code, no.message, no.header);
        pb_conn_linger(c);
    } else if (c->server->busy[c->tcp] < PB_SERVER_BUSY) {
        start(c);
    } else {
        c->state = PB_CONN_READY;
        c->deadline = in_ms(c->server->limits.queue);
        watch(c, EPOLLRDHUP | EPOLLONESHOT);
    }
}

/* Tries to make a request out of what is there. */
static void try_head(struct pb_conn *c)
{
    long n = pb_http_parse(&c->head, c->in, c->len, true);

    if (n == 0)
        return;
    if (n < 0) {
        refuse_head(c, (int)-n);
        return;
    }
    c->at = (size_t)n;
    c->close = !c->head.keep_alive;
    c->reply = (struct pb_reply){.head_only = strcmp(c->head.method, "HEAD") == 0};
    admit(c);
}

static void read_more(struct pb_conn *c)
{
    do {
        ssize_t n = pb_stream_recv(&c->io, c->in + c->len, sizeof c->in - c->len);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            close_soon(c);
            return;
        }
        if (n < 0)
            return;
        if (c->len == 0)
            c->deadline = in_ms(c->server->limits.head);
        c->len += (size_t)n;
        try_head(c);
    } while (c->state == PB_CONN_HEAD && pb_stream_holds(&c->io));
}

static void handshake(struct pb_conn *c)
{
    uint64_t later;

    switch (pb_conn_handshake(c, &later)) {
    case PB_HANDSHAKE_DONE:
        c->state = PB_CONN_HEAD;
        watch(c, EPOLLIN | EPOLLRDHUP);
        read_more(c);
        break;
    case PB_HANDSHAKE_GOES_ON:
        c->state = PB_CONN_HANDSHAKE;
        watch(c, EPOLLRDHUP |
                     (pb_stream_events(&c->io, POLLIN) == POLLOUT ? EPOLLOUT : EPOLLIN));
        break;
    case PB_HANDSHAKE_LATER:
        c->state = PB_CONN_SLOW;
        c->deadline = later;
        watch(c, EPOLLRDHUP | EPOLLONESHOT);
        break;
    case PB_HANDSHAKE_FAILED:
        close_soon(c);
        break;
    }
}

static void on_conn(struct pb_conn *c, uint32_t events)
{
    switch (c->state) {
    case PB_CONN_HANDSHAKE:
        handshake(c);
        break;
    case PB_CONN_HEAD:
        read_more(c);
        break;
    case PB_CONN_LINGER:
        if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            drain(c);
        break;
    case PB_CONN_READY:
    case PB_CONN_SLOW:
        close_soon(c);
        break;
    case PB_CONN_BUSY:
        pb_conn_abandon(c);
        break;
    }
}

/* An answer is complete: the next request, or the end. */
static void finish_answer(struct pb_conn *c)
{
    struct pb_server *s = c->server;

    pthread_join(c->thread, NULL);
    s->busy[c->tcp]--;
    if (!(c->route->flags & PB_ROUTE_QUIET))
        atomic_store(&s->last_ns, pb_clock_ns());
    atomic_fetch_sub(&s->active, 1);
    memmove(c->in, c->in + c->at, c->len - c->at);
    c->len -= c->at;
    c->at = 0;
    pb_conn_renew(c);
    if (c->close || atomic_load(&c->gone) || atomic_load(&s->stopping)) {
        pb_conn_linger(c);
        return;
    }
    c->state = PB_CONN_HEAD;
    c->deadline = in_ms(c->len ? s->limits.head : s->limits.idle);
    watch(c, EPOLLIN | EPOLLRDHUP);
    if (c->len)
        try_head(c);
    if (c->state == PB_CONN_HEAD && pb_stream_holds(&c->io))
        read_more(c);
}

static void finish_answers(struct pb_server *s)
{
    struct pb_conn *c, *next;

    pthread_mutex_lock(&s->lock);
    c = s->done;
    s->done = NULL;
    pthread_mutex_unlock(&s->lock);
    for (; c; c = next) {
        next = c->done;
        finish_answer(c);
    }
    for (c = s->oldest; c && !atomic_load(&s->stopping); c = c->next)
        if (c->state == PB_CONN_READY && s->busy[c->tcp] < PB_SERVER_BUSY)
            start(c);
}

static void on_time(struct pb_conn *c)
{
    if (c->state == PB_CONN_SLOW && !c->handshake_done) {
        c->deadline = in_ms(c->server->limits.head);
        handshake(c);
    } else if (c->state == PB_CONN_SLOW) {
        admit(c);
    } else if (c->state == PB_CONN_HEAD && c->len) {
        refuse_head(c, 408);
    } else if (c->state == PB_CONN_READY) {
        pb_conn_refuse(c, 503, "busy", "too many requests at once; try again",
                       "Retry-After: 1\r\n");
        pb_conn_linger(c);
    } else {
        pb_conn_close(c);
    }
}

/* Deals with deadlines; returns the next one. */
static uint64_t keep_time(struct pb_server *s)
{
    uint64_t now = pb_clock_ns(), next = UINT64_MAX;
    struct pb_conn *c, *behind;

    for (c = s->oldest; c; c = behind) {
        behind = c->next;
        if (c->deadline <= now)
            on_time(c);
        else if (c->deadline < next)
            next = c->deadline;
    }
    return next;
}

/* Listeners come and go by other threads' wishes. */
static void arm_listeners(struct pb_server *s)
{
    bool rest = s->accept_again > pb_clock_ns();

    for (int i = 0; i < PB_SERVER_LISTENERS; i++) {
        struct pb_listener *l = &s->listeners[i];
        struct epoll_event e = {.events = rest ? 0 : EPOLLIN, .data.ptr = l};

        if (l->fd < 0 || l->armed == !rest)
            continue;
        if (epoll_ctl(s->epoll, EPOLL_CTL_MOD, l->fd, &e) < 0)
            epoll_ctl(s->epoll, EPOLL_CTL_ADD, l->fd, &e);
        l->armed = !rest;
    }
    if (!rest)
        s->accept_again = 0;
}

static bool is_listener(const struct pb_server *s, const void *p)
{
    return (const char *)p >= (const char *)s->listeners &&
           (const char *)p < (const char *)(s->listeners + PB_SERVER_LISTENERS);
}

static void round_of_events(struct pb_server *s, int timeout_ms)
{
    struct epoll_event events[64];
    int n = epoll_wait(s->epoll, events, 64, timeout_ms);
    uint64_t count;

    for (int i = 0; i < n; i++) {
        void *p = events[i].data.ptr;

        if (p == s) {
            if (read(s->wake, &count, sizeof count) < 0)
                continue;
        } else if (!is_listener(s, p)) {
            on_conn(p, events[i].events);
        }
    }
    finish_answers(s);
    for (int i = 0; i < n; i++)
        if (is_listener(s, events[i].data.ptr) && !atomic_load(&s->stopping)) {
            pthread_mutex_lock(&s->lock);
            if (((struct pb_listener *)events[i].data.ptr)->fd >= 0)
                pb_conns_accept(s, events[i].data.ptr);
            pthread_mutex_unlock(&s->lock);
        }
}

/* Ends what goes on, and waits for those who answer to notice. */
static void stop_all(struct pb_server *s)
{
    struct pb_conn *c, *behind;

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < PB_SERVER_LISTENERS; i++)
        pb_listener_close(&s->listeners[i]);
    pthread_mutex_unlock(&s->lock);
    for (c = s->oldest; c; c = c->next)
        if (c->state == PB_CONN_BUSY) {
            pb_conn_abandon(c);
            shutdown(c->io.fd, SHUT_RDWR);
        }
    while (s->busy[0] + s->busy[1] > 0)
        round_of_events(s, 100);
    for (c = s->oldest; c; c = behind) {
        behind = c->next;
        pb_conn_close(c);
    }
}

/* Whoever is still being answered for a token that was revoked, or has expired, is cut off. */
static bool end_revoked(struct pb_server *s)
{
    for (struct pb_conn *c = s->oldest; c && s->busy[1]; c = c->next) {
        struct pb_caller now;

        if (c->tcp && c->state == PB_CONN_BUSY &&
            (c->caller.kind == PB_CALLER_OWN || c->caller.kind == PB_CALLER_NAMED) &&
            !pb_callers_identify(&s->callers, c->caller.hash, &now))
            pb_conn_abandon(c);
    }
    return s->busy[1] > 0;
}

void *pb_server_loop(void *server)
{
    struct pb_server *s = server;
    uint64_t review = 0;

    while (!atomic_load(&s->stopping)) {
        uint64_t next = keep_time(s), now;
        bool owned = true;

        now = pb_clock_ns();
        pthread_mutex_lock(&s->lock);
        if (review <= now) {
            owned = end_revoked(s);
            owned = pb_listeners_review(s) || owned;
            review = owned ? now + REVIEW_MS * NS_PER_MS : 0;
        }
        arm_listeners(s);
        pthread_mutex_unlock(&s->lock);
        if (owned && review < next)
            next = review;
        if (s->accept_again && s->accept_again < next)
            next = s->accept_again;
        round_of_events(s, next == UINT64_MAX ? -1
                           : next <= now      ? 0
                                              : (int)((next - now) / NS_PER_MS) + 1);
    }
    stop_all(s);
    return NULL;
}
