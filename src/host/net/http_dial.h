/*
 * http_dial.h - connections to a node: opened, checked, and not blocking.
 *
 * Owns: nothing; the caller closes the descriptor.
 * Threads: any.
 * Fails: with one line; PB_NO_TARGET when nobody listens, PB_TIMEOUT when nobody answers.
 * Not here: what is said on them (http.h).
 */
#ifndef PB_HOST_NET_HTTP_DIAL_H
#define PB_HOST_NET_HTTP_DIAL_H

#include <stdbool.h>

#include "base/err.h"

struct pb_stream;

int pb_http_dial_unix(const char *path, int timeout_ms, struct pb_err *err);
/* "host:port"; every address of the host is tried. */
int pb_http_dial_tcp(const char *address, int timeout_ms, struct pb_err *err);
/* The handshake of TLS on a connection that was just made; as pb_tls_handshake, or PB_TIMEOUT. */
int pb_http_dial_handshake(struct pb_stream *s, int timeout_ms, struct pb_err *err);
/* Does a connection stay on this machine? By its addresses. */
bool pb_http_is_here(int fd);

#endif
