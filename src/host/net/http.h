/*
 * http.h - HTTP/1.1, as much of it as a node and its clients need.
 *
 * Owns: a client owns one connection; the parsers own nothing.
 * Threads: one per connection.
 * Fails: a head that is malformed or over the limits is refused with the status to answer; the
 * client says why and how far it got. Every wait has a deadline.
 * Not here: routes (node/http/), TLS (tls.h), which goes with a token unless it is not wanted.
 *
 * What two readers of a message could take differently is refused: bare line ends, folded
 * headers, blanks before a colon, a length said twice.
 */
#ifndef PB_HOST_NET_HTTP_H
#define PB_HOST_NET_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/arena.h"

enum {
    PB_HTTP_HEAD_MAX = 16 << 10,
    PB_HTTP_TRAILER_MAX = 4096,
    PB_HTTP_HEADERS_MAX = 64,
    PB_HTTP_BODY_MAX = 16 << 20,
    PB_HTTP_NAME_MAX = 256, /* size of a host's name */
};

struct pb_http_header {
    const char *name, *value; /* terminated, in the head's own bytes; blanks around are gone */
};

/* A request or a response, up to the empty line. */
struct pb_http_head {
    const char *method, *path, *query; /* request; path decoded, query as sent or "" */
    int status;                        /* response */
    bool http_1_0;
    struct pb_http_header headers[PB_HTTP_HEADERS_MAX];
    size_t nheaders;
    int64_t length; /* Content-Length, -1 for none */
    bool chunked, keep_alive, upgrade, expect_continue;
};

/*
 * Parses data[0..len) in place. Returns bytes of the head when it is complete, 0 when more are
 * needed, or minus the status to answer (400, 414, 431, 501, 505). What is not complete is left
 * as it is.
 */
long pb_http_parse(struct pb_http_head *h, char *data, size_t len, bool request);
const char *pb_http_header(const struct pb_http_head *h, const char *name);
/* Is the word in a header's list of words, e.g. "close" in Connection? Case does not matter. */
bool pb_http_lists(const char *value, const char *word);
/* Is the value of Content-Type this one media type, with or without well-formed parameters? */
bool pb_http_is_type(const char *value, const char *type);
/* Decoded value of a parameter in the query string, in the arena; NULL when absent. */
char *pb_http_param(const struct pb_http_head *h, const char *name, struct pb_arena *a);
const char *pb_http_reason(int status);

/* Where the bytes behind a head belong. Start with pb_http_body_init. */
struct pb_http_body {
    enum {
        PB_BODY_PLAIN,  /* left bytes of it */
        PB_BODY_REST,   /* up to the end of the connection */
        PB_BODY_SIZE,   /* of a chunk: digits */
        PB_BODY_EXTRA,  /* behind the digits, up to the end of the line */
        PB_BODY_CHUNK,  /* left bytes of it */
        PB_BODY_BEHIND, /* line end behind a chunk */
        PB_BODY_TRAILER,
        PB_BODY_DONE,
    } state;
    uint64_t left;
    unsigned digits, extra;
    bool cr, blank; /* a '\r' came last; nothing but that in this line */
    /*
     * PB_HTTP_TRAILER_MAX bytes of the caller's, or NULL: lines of the trailer, with '\n'; before
     * that, what stood behind the size of a chunk the last time something did.
     */
    char *trailer;
    size_t trailer_len;
};

void pb_http_body_init(struct pb_http_body *b, const struct pb_http_head *h, bool request);
/*
 * Looks at data[0..len): *ret_at and *ret_len name a piece of the body in it, if any. Returns the
 * bytes that are dealt with, the piece included, 0 only when it is done or len is; -1 when they
 * make no sense.
 */
long pb_http_body_feed(struct pb_http_body *b, const char *data, size_t len, const char **ret_at,
                       size_t *ret_len);

/*
 * "host:port", "[::1]:8080", ":port" or "port" (host: ""). host must hold PB_HTTP_NAME_MAX bytes,
 * port 8.
 */
int pb_http_split(const char *address, char *host, char *port, struct pb_err *err);

/* Where a node is. */
struct pb_http_where {
    const char *socket; /* path of a Unix socket, or NULL */
    const char *host;   /* "host:port", "[::1]:8080" */
    const char *token;  /* for host; NULL for none: the connection is plain then */
    bool plain;         /* send the token in the open, without TLS */
};

struct pb_http_client;

struct pb_http_request {
    const char *method, *path; /* path with its query, already encoded */
    const char *body, *type;   /* type: Content-Type; NULL without a body */
    size_t body_len;
    int timeout_ms; /* without a byte from the other side; 0: no limit */
    const _Atomic bool *cancelled; /* or NULL: closes the connection, fails with PB_FAIL */
};

/* Body bytes as they arrive. Non-zero: stop. */
typedef int pb_http_sink(const void *data, size_t len, void *arg);

/*
 * PB_NO_TARGET: nobody listens there. PB_DENIED: the Unix socket is not ours to use, or another
 * user's process listens on it, or the node does not know the token. To a port of this machine that
 * does not know it the connection is plain, and the token does not travel.
 */
int pb_http_connect(struct pb_http_client **ret, const struct pb_http_where *where,
                    int timeout_ms, struct pb_err *err);
void pb_http_close(struct pb_http_client *c);
/*
 * Sends, reads the head, hands the body to the sink. 0 with *ret_status whatever the status is;
 * also when the sink stopped it. An answer that breaks off is a failure. May be called again and
 * again; a connection that the other side closed in between is opened anew.
 */
int pb_http_ask(struct pb_http_client *c, const struct pb_http_request *r, pb_http_sink *sink,
                void *arg, int *ret_status, struct pb_err *err);
/* The value of a line of a trailer; it is cut out of the text. NULL: there is none of that name. */
const char *pb_http_trailer(char *trailer, const char *name);
/* A header or trailer of the last response, until the next question. */
const char *pb_http_answered(struct pb_http_client *c, const char *name);
/*
 * Of an answer that broke off: the error that the server named in the last line it sent, as its
 * JSON in the arena; NULL when it could not.
 */
const char *pb_http_final_error(struct pb_http_client *c, struct pb_arena *a);
/*
 * Asks by POST, with a body of JSON, to turn the connection into a byte stream (101). Returns the
 * descriptor (of TLS, one that a thread copies from and to), which does not block and which the
 * caller owns from then on, or -1. c is closed either way.
 */
int pb_http_upgrade(struct pb_http_client *c, const char *path, const char *body,
                    const char *protocol, struct pb_err *err);
/*
 * Turns an answer whose status is no success into an error: by the code and message of its JSON
 * (docs/http.md), else by its status. Returns -1.
 */
int pb_http_explain(int status, const char *body, size_t len, struct pb_err *err);

/* Appends %XX-encoded text, fit for a path segment or a parameter. */
struct pb_buf;
void pb_http_encode(struct pb_buf *b, const char *text);

#endif
