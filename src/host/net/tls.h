/*
 * tls.h - TLS 1.3 over a socket that does not block, with a key that both sides have.
 *
 * Owns: a context owns the library's settings, a connection its session; the socket is the
 * caller's.
 * Threads: contexts any; a connection one at a time.
 * Fails: with one line. What the other side sends is the library's to judge; nothing of it is
 * shown.
 * Not here: tokens (key.h), sockets (http_dial.h), HTTP.
 *
 * Both sides prove that they have the key, so neither needs a certificate, and each connection has
 * secrets of its own (X25519): who learns the key later cannot read what was said before. There is
 * no early data and no resumption, hence nothing to send again. A server may also have a
 * certificate, for browsers and curl: those say by other means who they are.
 */
#ifndef PB_HOST_NET_TLS_H
#define PB_HOST_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/net/key.h"

struct pb_tls_context;
struct pb_tls;

/* The first byte of a TLS connection; no request of HTTP begins so. */
enum { PB_TLS_FIRST_BYTE = 0x16 };

/* Which key has this name? False: none. arg: as given to pb_tls_accept. */
typedef bool pb_tls_find(const char *id, struct pb_key *ret, void *arg);

struct pb_tls_context *pb_tls_client(struct pb_err *err);
struct pb_tls_context *pb_tls_server(pb_tls_find *find, struct pb_err *err);
/* A certificate and its key, both PEM files; takes the place of one that was there. */
int pb_tls_certificate(struct pb_tls_context *c, const char *cert, const char *key,
                       struct pb_err *err);
/* Connections may live longer. NULL is fine. */
void pb_tls_context_destroy(struct pb_tls_context *c);

/* key is copied. NULL when there is no memory. */
struct pb_tls *pb_tls_connect(struct pb_tls_context *c, int fd, const struct pb_key *key);
struct pb_tls *pb_tls_accept(struct pb_tls_context *c, int fd, void *arg);
/* Says goodbye if it can do so at once. NULL is fine. */
void pb_tls_close(struct pb_tls *t);

/*
 * One step of the handshake: 0 done, 1 wait for pb_tls_events, -1 failed. PB_DENIED: the other side
 * does not have the key; PB_FAIL: it does not speak TLS, or went away.
 */
int pb_tls_handshake(struct pb_tls *t, struct pb_err *err);
/* POLLIN or POLLOUT: what the last call that said "not now" waits for. */
short pb_tls_events(const struct pb_tls *t);
/* The name of the key that this connection was made with; "" for a certificate. */
const char *pb_tls_key_id(const struct pb_tls *t);

/*
 * As recv and send on a socket that does not block: 0 at the end, -1 with errno. Reading: bytes
 * may be there that poll does not know of, so read until EAGAIN or until pb_tls_holds is false.
 * Writing that was not finished goes on with the same bytes.
 */
ssize_t pb_tls_read(struct pb_tls *t, void *data, size_t len);
ssize_t pb_tls_write(struct pb_tls *t, const void *data, size_t len);
bool pb_tls_holds(const struct pb_tls *t);
/* Bytes on the wire so far, in both directions. */
void pb_tls_count(const struct pb_tls *t, uint64_t *ret_in, uint64_t *ret_out);

#endif
