/* A server with routes of the tests' own, and clients that speak byte by byte. */
#ifndef PB_TEST_SERVING_H
#define PB_TEST_SERVING_H

#include "pb_test.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/http/conn.h"
#include "node/http/server.h"

#define TOKEN "secret-of-the-test"

static _Atomic int went_away, waiting;

static void run_fast(struct pb_request *rq)
{
    pb_reply_begin(rq, 200, "text/plain");
    pb_reply_puts(rq, rq->reach ? rq->reach : "fast");
    pb_reply_end(rq);
}

static void run_echo(struct pb_request *rq)
{
    pb_reply_begin(rq, 200, "text/plain");
    pb_reply_puts(rq, pb_json_str(rq->body, "text", "none"));
    pb_reply_end(rq);
}

static void run_long(struct pb_request *rq)
{
    char line[100];

    pb_reply_begin(rq, 200, "text/plain");
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 100000 && pb_reply_write(rq, line, sizeof line) == 0; i++)
        continue;
    if (atomic_load(rq->gone))
        atomic_fetch_add(&went_away, 1);
    pb_reply_end(rq);
}

static void run_broken(struct pb_request *rq)
{
    pb_reply_begin(rq, 200, "text/plain");
    pb_reply_puts(rq, "a part");
    pb_reply_flush(rq);
}

static void run_late_error(struct pb_request *rq)
{
    struct pb_err err = {0};

    pb_reply_begin(rq, 200, "text/plain");
    pb_reply_puts(rq, "a part");
    pb_err_set(&err, PB_NO_TARGET, "no \"such\" thing");
    pb_reply_error(rq, &err, 7, "suchlike");
}

static void run_wait(struct pb_request *rq)
{
    atomic_fetch_add(&waiting, 1);
    while (!atomic_load(rq->gone))
        usleep(1000);
    atomic_fetch_sub(&waiting, 1);
    atomic_fetch_add(&went_away, 1);
}

static void run_mirror(struct pb_request *rq)
{
    const void *early;
    char in[64];
    size_t len;
    ssize_t n;
    struct pb_stream *io;
    struct pollfd p = {.events = POLLIN};

    if (pb_reply_upgrade(rq, "mirror", &io, &early, &len) < 0)
        return;
    p.fd = io->fd;
    if (len)
        pb_conn_send(rq->conn, early, len);
    while (poll(&p, 1, 5000) > 0 && (n = pb_stream_recv(io, in, sizeof in)) > 0)
        pb_conn_send(rq->conn, in, (size_t)n);
}

static const struct pb_route fast = {"GET", "/fast", "", 0, run_fast, 0},
                             open_one = {"GET", "/open", "", PB_ROUTE_OPEN, run_fast, 0},
                             local = {"POST", "/local", "", PB_ROUTE_LOCAL, run_echo, 0},
                             echo = {"POST", "/echo", "", 0, run_echo, PB_RIGHT_CONTROL},
                             longer = {"GET", "/long", "", 0, run_long, 0},
                             broken = {"GET", "/broken", "", 0, run_broken, 0},
                             late = {"GET", "/late", "", 0, run_late_error, 0},
                             waits = {"GET", "/wait", "", 0, run_wait, 0},
                             mirror = {"GET", "/mirror", "", 0, run_mirror, 0};
static const struct pb_route *const routes[] = {&fast, &open_one, &local, &echo, &longer,
                                                &broken, &late, &waits, &mirror, NULL};

struct server {
    struct pb_server *s;
    char path[64];
    char bound[64];
    int port;
};

static inline void start_with(struct server *t, const struct pb_limits *limits, bool tcp,
                              bool no_token)
{
    struct pb_listen w = {.address = "127.0.0.1:0", .no_token = no_token, .token = TOKEN};
    struct pb_err err = {0};

    *t = (struct server){0};
    snprintf(t->path, sizeof t->path, "/tmp/pb-server-%d", (int)getpid());
    setenv("PROBING_TOKEN", TOKEN, 1);
    if (pb_server_create_with(&t->s, NULL, routes, limits, t->path, &err) < 0 ||
        (tcp && pb_server_open(t->s, &w, t->bound, sizeof t->bound, &err) < 0))
        fail_msg("%s", err.msg);
    if (tcp)
        t->port = atoi(strrchr(t->bound, ':') + 1);
    atomic_store(&went_away, 0);
}

static inline void start(struct server *t, bool tcp, bool no_token)
{
    start_with(t, &pb_server_limits, tcp, no_token);
}

static inline int dial(const struct server *t, bool tcp)
{
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((uint16_t)t->port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(here.sun_path, t->path);
    assert_true(fd >= 0);
    assert_int_equal(tcp ? connect(fd, (struct sockaddr *)&there, sizeof there)
                         : connect(fd, (struct sockaddr *)&here, sizeof here), 0);
    return fd;
}

/* Sends and reads to the end of the connection, or until `until` was read. */
static inline char *talk(int fd, const char *text, const char *until)
{
    static char in[1 << 16];
    size_t n = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};

    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
    while (n < sizeof in - 1 && poll(&p, 1, 5000) > 0) {
        ssize_t got = recv(fd, in + n, sizeof in - 1 - n, 0);

        if (got <= 0)
            break;
        n += (size_t)got;
        in[n] = '\0';
        if (until && strstr(in, until))
            break;
    }
    in[n] = '\0';
    return in;
}

static inline int status_of(const struct server *t, bool tcp, const char *text)
{
    int fd = dial(t, tcp);
    char *answer = talk(fd, text, "\r\n\r\n");
    int status = strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : -1;

    close(fd);
    return status;
}

static inline void eventually(_Atomic int *v, int want)
{
    for (int i = 0; i < 5000 && atomic_load(v) != want; i++)
        usleep(1000);
    assert_int_equal(atomic_load(v), want);
}

#endif
