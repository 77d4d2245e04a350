/*
 * http_dial.h - connections to a node: opened, checked, and not blocking.
 *
 * Owns: nothing; the caller closes the descriptor.
 * Threads: any.
 * Fails: with one line; PB_NO_TARGET when nobody listens, PB_TIMEOUT when nobody answers.
 * Not here: what is said on them (http.h).
 */
#ifndef PB_HOST_HTTP_DIAL_H
#define PB_HOST_HTTP_DIAL_H

#include "base/err.h"

int pb_http_dial_unix(const char *path, int timeout_ms, struct pb_err *err);
/* "host:port"; every address of the host is tried. */
int pb_http_dial_tcp(const char *address, int timeout_ms, struct pb_err *err);

#endif
