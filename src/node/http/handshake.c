/*
 * handshake.c - what happens on a TCP connection before its first head: TLS, if it is wanted.
 *
 * The first byte tells. Which key a client must have, it says itself, by the name of the key; the
 * token behind that key then is the caller's, as if it had come in a header. Somebody who names a
 * key that is not known has a wrong token: it is counted, written down and slowed as any other.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "node/http/guard.h"

static bool find_key(const char *id, struct pb_key *ret, void *arg)
{
    struct pb_conn *c = arg;
    char hash[PB_SHA256_TEXT];

    c->unknown_key = !pb_listener_key(c->server, c->listener, id, ret, hash);
    return !c->unknown_key;
}

int pb_handshake_check(const char *cert, const char *key, struct pb_err *err)
{
    struct pb_tls_context *t = pb_tls_server(find_key, err);
    int rc = t ? pb_tls_certificate(t, cert, key, err) : -1;

    pb_tls_context_destroy(t);
    return rc;
}

/* One for all listeners; the certificate is that of the last one that has any. */
static struct pb_tls_context *context_of(struct pb_server *s)
{
    if (s->tls && !atomic_exchange(&s->new_certificate, false))
        return s->tls;
    pb_tls_context_destroy(s->tls);
    s->tls = pb_tls_server(find_key, NULL);
    pthread_mutex_lock(&s->lock);
    for (int i = 1; i < PB_SERVER_LISTENERS && s->tls; i++)
        if (s->listeners[i].fd >= 0 && s->listeners[i].cert[0])
            pb_tls_certificate(s->tls, s->listeners[i].cert, s->listeners[i].cert_key, NULL);
    pthread_mutex_unlock(&s->lock);
    return s->tls;
}

static void note_failure(struct pb_conn *c)
{
    const struct pb_limits *limits = &c->server->limits;
    char detail[80];
    unsigned n;

    if (!c->unknown_key || c->listener->no_token)
        return;
    n = pb_callers_failed(&c->server->callers, &c->from, pb_clock_ns(), limits->guess,
                          limits->guess_max);
    snprintf(detail, sizeof detail, "wrong token, number %u from there: TLS", n);
    pb_guard_note_refused(c, detail);
}

/* The first byte says which way it goes on; it stays where it is. */
static enum pb_handshake look_at_first(struct pb_conn *c, uint64_t *ret_ns)
{
    unsigned char first;
    ssize_t n = recv(c->io.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return PB_HANDSHAKE_GOES_ON;
    if (n <= 0)
        return PB_HANDSHAKE_FAILED;
    if (first != PB_TLS_FIRST_BYTE) {
        c->handshake_done = true;
        return PB_HANDSHAKE_DONE;
    }
    *ret_ns = c->listener->no_token
                  ? 0
                  : pb_callers_wait(&c->server->callers, &c->from, pb_clock_ns());
    if (*ret_ns)
        return PB_HANDSHAKE_LATER;
    c->io.tls = context_of(c->server) ? pb_tls_accept(c->server->tls, c->io.fd, c) : NULL;
    return c->io.tls ? PB_HANDSHAKE_GOES_ON : PB_HANDSHAKE_FAILED;
}

enum pb_handshake pb_conn_handshake(struct pb_conn *c, uint64_t *ret_ns)
{
    enum pb_handshake g;
    int rc;

    *ret_ns = 0;
    if (!c->io.tls) {
        g = look_at_first(c, ret_ns);
        if (!c->io.tls)
            return g;
    }
    rc = pb_tls_handshake(c->io.tls, NULL);
    if (rc > 0)
        return PB_HANDSHAKE_GOES_ON;
    if (rc < 0) {
        note_failure(c);
        return PB_HANDSHAKE_FAILED;
    }
    c->handshake_done = true;
    return PB_HANDSHAKE_DONE;
}
