#include "host/net/stream.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "host/os/signals.h"
#include "host/net/tls.h"

void pb_stream_close(struct pb_stream *s)
{
    pb_tls_close(s->tls);
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct pb_stream){.fd = -1};
}

int pb_stream_end(struct pb_stream *s)
{
    pb_tls_close(s->tls);
    s->tls = NULL;
    return shutdown(s->fd, SHUT_WR);
}

ssize_t pb_stream_recv(struct pb_stream *s, void *data, size_t len)
{
    return s->tls ? pb_tls_read(s->tls, data, len) : recv(s->fd, data, len, MSG_DONTWAIT);
}

ssize_t pb_stream_send(struct pb_stream *s, const void *data, size_t len)
{
    return s->tls ? pb_tls_write(s->tls, data, len)
                  : send(s->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

short pb_stream_events(const struct pb_stream *s, short wanted)
{
    return s->tls ? pb_tls_events(s->tls) : wanted;
}

bool pb_stream_holds(const struct pb_stream *s)
{
    return s->tls && pb_tls_holds(s->tls);
}

/* One direction: bytes that were read and not yet written. */
struct direction {
    char bytes[64 << 10];
    size_t at, len;
    short events; /* what the writing side waits for, 0: nothing */
};

/* False when it is at its end. */
static bool pump(struct direction *d, struct pb_stream *from, struct pb_stream *to)
{
    ssize_t n;

    for (;;) {
        while (d->at < d->len) {
            n = pb_stream_send(to, d->bytes + d->at, d->len - d->at);
            d->events = n < 0 && errno == EAGAIN ? pb_stream_events(to, POLLOUT) : 0;
            if (d->events)
                return true;
            if (n < 0 && errno != EINTR)
                return false;
            d->at += n > 0 ? (size_t)n : 0;
        }
        n = pb_stream_recv(from, d->bytes, sizeof d->bytes);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n < 0)
            return true;
        d->at = 0;
        d->len = (size_t)n;
    }
}

void pb_stream_relay(struct pb_stream *s, int fd, const void *early, size_t len,
                     const _Atomic bool *gone)
{
    struct direction *d = pb_alloc_resize(NULL, 2 * sizeof *d);
    struct direction *up = &d[0], *down = &d[1];
    struct pb_stream other = {.fd = fd};
    bool open = len <= sizeof up->bytes;

    up->at = up->len = down->at = down->len = 0;
    up->events = down->events = 0;
    if (open) {
        memcpy(up->bytes, early, len);
        up->len = len;
    }
    while (open && !(gone && atomic_load(gone)) && pump(up, s, &other) && pump(down, &other, s)) {
        struct pollfd p[2] = {{.fd = s->fd}, {.fd = fd}};

        p[0].events = (short)((up->events ? 0 : POLLIN) | down->events);
        p[1].events = (short)((down->events ? 0 : POLLIN) | up->events);
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            break;
    }
    free(d);
}

struct unwrapping {
    struct pb_stream stream;
    int fd;
};

static void *unwrap(void *arg)
{
    struct unwrapping *u = arg;

    pb_stream_relay(&u->stream, u->fd, "", 0, NULL);
    pb_stream_close(&u->stream);
    close(u->fd);
    free(u);
    return NULL;
}

int pb_stream_unwrap(struct pb_stream *s, struct pb_err *err)
{
    struct unwrapping *u;
    sigset_t before;
    pthread_t thread;
    int pair[2], rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        pb_stream_close(s);
        return pb_err_set(err, PB_FAIL, "socketpair: %s", strerror(errno));
    }
    u = pb_alloc_resize(NULL, sizeof *u);
    *u = (struct unwrapping){.stream = *s, .fd = pair[1]};
    *s = (struct pb_stream){.fd = -1};
    /* Signals are for the thread that waits at the other end. */
    pb_signals_block(&before);
    rc = pthread_create(&thread, NULL, unwrap, u);
    pb_signals_restore(&before);
    if (rc == 0) {
        pthread_detach(thread);
        return pair[0];
    }
    pb_stream_close(&u->stream);
    close(pair[0]);
    close(pair[1]);
    free(u);
    return pb_err_set(err, PB_FAIL, "no thread to be had");
}
