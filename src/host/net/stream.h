/*
 * stream.h - bytes to and from another process, in the open or by TLS.
 *
 * Owns: the socket and the session.
 * Threads: one at a time.
 * Fails: as recv and send do, with errno.
 * Not here: handshake (tls.h), what is said (http.h).
 */
#ifndef PB_HOST_NET_STREAM_H
#define PB_HOST_NET_STREAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct pb_tls;

/* All zero but the descriptor, which must not block: a plain socket. */
struct pb_stream {
    int fd; /* -1: closed */
    struct pb_tls *tls;
};

void pb_stream_close(struct pb_stream *s);
/* Nothing more will come from here; the other side is told so. */
int pb_stream_end(struct pb_stream *s);
/* Neither waits. -1 with EAGAIN: poll for pb_stream_events. */
ssize_t pb_stream_recv(struct pb_stream *s, void *data, size_t len);
ssize_t pb_stream_send(struct pb_stream *s, const void *data, size_t len);
/* What to wait for after EAGAIN in a call that wanted `wanted` (POLLIN or POLLOUT). */
short pb_stream_events(const struct pb_stream *s, short wanted);
/* Bytes have arrived that poll does not know of. */
bool pb_stream_holds(const struct pb_stream *s);
/*
 * Copies between the two until one of them ends, or *gone turns true; early: bytes that go to the
 * socket first. Both sockets do not block. What poll sees on them wakes it; nothing else does.
 */
void pb_stream_relay(struct pb_stream *s, int fd, const void *early, size_t len,
                     const _Atomic bool *gone);
/*
 * A plain socket that stands for the stream, copied to and from by a thread that ends with either
 * side. Takes the stream over, whatever happens; -1 when there is no thread to be had.
 */
int pb_stream_unwrap(struct pb_stream *s, struct pb_err *err);

#endif
