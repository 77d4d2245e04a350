#include "cli/client/forward.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "host/os/signals.h"
#include "host/net/stream.h"

enum { BACKLOG = 64, CONNECTIONS_MAX = 64, DIAL_MS = 5000, LOOK_MS = 1000 };

struct forward {
    const struct pb_http_where *to;
    const _Atomic bool *stop;
    _Atomic int open;
};

struct connection {
    struct forward *f;
    int fd; /* the browser's connection */
};

int pb_forward_listen(int port, bool other, int *ret_port, struct pb_err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, rc;
    socklen_t len = sizeof at;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        return pb_err_set(err, PB_FAIL, "socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    rc = bind(fd, (struct sockaddr *)&at, sizeof at);
    if (rc < 0 && other) {
        at.sin_port = 0;
        rc = bind(fd, (struct sockaddr *)&at, sizeof at);
    }
    if (rc < 0 || listen(fd, BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&at, &len) < 0) {
        pb_err_set(err, PB_FAIL, "127.0.0.1:%d: %s", port,
                   errno == EADDRINUSE ? "in use by another program" : strerror(errno));
        close(fd);
        return -1;
    }
    *ret_port = ntohs(at.sin_port);
    return fd;
}

/* A connection to the node that carries a browser's bytes, or -1. */
static int dial(const struct pb_http_where *to)
{
    struct pb_http_client *http;

    if (pb_http_connect(&http, to, DIAL_MS, NULL) < 0)
        return -1;
    return pb_http_upgrade(http, "/api/relay", "{}", "probing-page", NULL);
}

static void *carry(void *arg)
{
    struct connection *c = arg;
    struct pb_stream browser = {.fd = c->fd};
    int fd = dial(c->f->to);

    if (fd >= 0) {
        pb_stream_relay(&browser, fd, "", 0, c->f->stop);
        close(fd);
    }
    pb_stream_close(&browser);
    atomic_fetch_sub(&c->f->open, 1);
    free(c);
    return NULL;
}

static void take_in(struct forward *f, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct connection *c;
    sigset_t before;
    pthread_t thread;
    int rc;

    if (fd < 0)
        return;
    if (atomic_load(&f->open) >= CONNECTIONS_MAX) {
        close(fd);
        return;
    }
    c = pb_alloc_resize(NULL, sizeof *c);
    *c = (struct connection){.f = f, .fd = fd};
    atomic_fetch_add(&f->open, 1);
    pb_signals_block(&before); /* they are for the thread that waits */
    rc = pthread_create(&thread, NULL, carry, c);
    pb_signals_restore(&before);
    if (rc == 0) {
        pthread_detach(thread);
        return;
    }
    atomic_fetch_sub(&f->open, 1);
    close(fd);
    free(c);
}

void pb_forward_run(int fd, const struct pb_http_where *to, const _Atomic bool *stop)
{
    struct forward f = {.to = to, .stop = stop};
    struct pollfd p = {.fd = fd, .events = POLLIN};

    while (!atomic_load(stop))
        if (poll(&p, 1, LOOK_MS) > 0)
            take_in(&f, fd);
    close(fd);
    /* What is open is not waited for: the command ends, and with it all of it. */
    if (atomic_load(&f.open))
        _exit(0);
}
