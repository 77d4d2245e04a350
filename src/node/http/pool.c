/*
 * pool.c - the connections a server holds: in at one end, out at the other.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/net/http_dial.h"
#include "node/http/conn.h"

#define NS_PER_MS 1000000ull
/* Out of descriptors: when to try again. */
#define REST_MS 100
#define ACCEPT_AT_ONCE 32

static void unlink_conn(struct pb_conn *c)
{
    struct pb_server *s = c->server;

    *(c->prev ? &c->prev->next : &s->oldest) = c->next;
    *(c->next ? &c->next->prev : &s->newest) = c->prev;
}

static void link_newest(struct pb_conn *c)
{
    struct pb_server *s = c->server;

    c->prev = s->newest;
    c->next = NULL;
    *(c->prev ? &c->prev->next : &s->oldest) = c;
    s->newest = c;
}

void pb_conn_renew(struct pb_conn *c)
{
    unlink_conn(c);
    link_newest(c);
}

void pb_conn_close(struct pb_conn *c)
{
    unlink_conn(c);
    c->server->held[c->tcp]--;
    atomic_fetch_sub(&c->listener->conns, 1);
    pb_stream_close(&c->io);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* The one that waits longest for nothing goes first; one that is being answered never does. */
static bool make_room(struct pb_server *s, bool tcp)
{
    for (struct pb_conn *c = s->oldest; c; c = c->next)
        if (c->tcp == tcp && c->state != PB_CONN_BUSY && c->state != PB_CONN_READY) {
            pb_conn_close(c);
            return true;
        }
    return false;
}

static bool is_permitted(struct pb_conn *c)
{
    struct ucred who;
    socklen_t len = sizeof who;

    if (getsockopt(c->io.fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
        (who.uid != geteuid() && who.uid != 0))
        return false;
    c->caller = (struct pb_caller){.right = PB_RIGHT_CONTROL, .uid = who.uid, .pid = who.pid};
    return true;
}

/* Answers are small and somebody waits for them; and a peer that vanished is to be noticed. */
static void set_socket_options(int fd)
{
    int one = 1, idle = 60, every = 15, times = 4;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

static void add_conn(struct pb_server *s, struct pb_listener *l, int fd,
                     const struct sockaddr_storage *from)
{
    struct pb_conn *c = pb_alloc_resize(NULL, sizeof *c);
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};

    memset(c, 0, offsetof(struct pb_conn, in));
    c->server = s;
    c->listener = l;
    c->tcp = l->tcp;
    c->io.fd = fd;
    c->from = *from;
    c->state = c->tcp ? PB_CONN_HANDSHAKE : PB_CONN_HEAD;
    c->here = c->tcp && pb_http_is_here(fd);
    c->watched = -1;
    c->deadline = pb_clock_ns() + (uint64_t)s->limits.head * NS_PER_MS;
    pthread_mutex_init(&c->lock, NULL);
    link_newest(c);
    s->held[c->tcp]++;
    atomic_fetch_add(&l->conns, 1);
    epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e);
    if (c->tcp) {
        set_socket_options(fd);
    } else if (!is_permitted(c)) {
        pb_conn_refuse(c, 403, "denied", "only its owner and root may ask this node", NULL);
        pb_conn_linger(c);
    }
}

void pb_conns_accept(struct pb_server *s, struct pb_listener *l)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        int fd = accept4(l->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            if (make_room(s, true) || make_room(s, false))
                continue;
            s->accept_again = pb_clock_ns() + REST_MS * NS_PER_MS;
        }
        if (fd < 0)
            return;
        if (s->held[l->tcp] >= PB_SERVER_HELD && !make_room(s, l->tcp))
            close(fd);
        else
            add_conn(s, l, fd, &from);
    }
}
