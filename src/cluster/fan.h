/*
 * fan.h - one question to many nodes at once.
 *
 * Owns: the connections while it runs.
 * Threads: one for each call; the flag that cancels may be set from others.
 * Fails: for each node on its own, with one line; the call itself always ends by the deadline.
 * Not here: which nodes there are (members.h), what is asked.
 *
 * All connections are made at once (up to PB_FAN_OPEN, the rest as others end) and looked after by
 * one thread, so a node that is slow, hung or gone costs its own time only.
 */
#ifndef PB_CLUSTER_FAN_H
#define PB_CLUSTER_FAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/buf.h"
#include "host/net/key.h"

enum { PB_FAN_OPEN = 512, PB_FAN_ERROR_MAX = 16 << 10 };

/* Bytes of the body of an answer with status 200, as they arrive. Non-zero: stop, *err says why. */
typedef int pb_fan_sink(const void *data, size_t len, void *arg, struct pb_err *err);

struct pb_fan_one {
    const char *address; /* "10.0.0.3:7707": numbers, so that no name has to be looked up */
    const char *socket;  /* path of a Unix socket; NULL: address is used */
    pb_fan_sink *sink;
    void *arg;
    const char *body; /* body for this node alone; NULL: the body of the request */
    size_t body_len;

    /* The outcome, filled in by pb_fan_ask. */
    bool answered;      /* an answer with status 200 came in full */
    struct pb_err err;  /* reason why there is no answer */
    uint64_t took_ns;
    uint64_t bytes_in, bytes_out; /* on the wire */
    int64_t sent_ns, received_ns; /* wall clock: request begins; first byte of the answer is here */
    char own[64];       /* own address of the connection, without a port; "" for a Unix socket */
    char note[200];     /* value of the request's note_header in the answer, cut; "" when none */
};

struct pb_fan_request {
    const char *method, *path;
    const char *body; /* JSON, or NULL */
    size_t body_len;
    uint64_t deadline_ns; /* monotonic */
    int connect_ms;       /* limit for connecting with handshake; 0: deadline_ns alone */
    const struct pb_key *key; /* shared key for TCP connections */
    const char *note_header; /* header or trailer that is kept of each answer; or NULL */
    const _Atomic bool *cancelled; /* request is given up once true; or NULL */
};

/* Each of v is asked once. Returns how many answered. */
size_t pb_fan_ask(struct pb_fan_one *v, size_t n, const struct pb_fan_request *r);

#endif
