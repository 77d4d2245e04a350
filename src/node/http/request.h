/*
 * request.h - what a route gets to see, and how it answers.
 *
 * Owns: nothing; a request lives on the stack of the thread that answers it.
 * Threads: one, but `gone` turns true from another.
 * Fails: writing returns -1 when the reader went away; a route may simply go on to its end.
 * Not here: connections (conn.h), who may ask (guard.h).
 *
 * A route is one file, route_<name>.c, that opens with its descriptor
 * `const struct pb_route pb_route_<name>`, and one line in routes.def. It is called when the head
 * is checked, the caller is permitted and the body is there.
 *
 * Answers are collected. One that ends before PB_REPLY_PIECE bytes goes out whole, with its
 * length; until then a route may still turn it into an error. A longer one, or one that is
 * flushed, is sent in chunks; if the route returns without pb_reply_end, the connection is broken
 * off without the last chunk, so that the reader cannot take a part for the whole.
 */
#ifndef PB_NODE_HTTP_REQUEST_H
#define PB_NODE_HTTP_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "host/net/agent_client.h"
#include "host/text/arena.h"
#include "host/text/buf.h"
#include "host/net/http.h"
#include "host/text/json.h"
#include "node/access/token.h"
#include "node/discover/scope.h"

struct pb_node;
struct pb_server;
struct pb_conn;
struct pb_request;
struct pb_stream;

enum { PB_REPLY_PIECE = 64 << 10 };

enum pb_route_flags {
    PB_ROUTE_LOCAL = 1, /* only over the Unix socket */
    PB_ROUTE_OPEN = 2,  /* no token: it says nothing that matters */
    PB_ROUTE_BELOW = 4, /* all paths that begin with its own */
    PB_ROUTE_VISIT = 8, /* may be visited by a link on another site's page */
    PB_ROUTE_BROWSER = 16, /* OPEN, but who has signed in is known */
    PB_ROUTE_QUIET = 64, /* nodes among themselves: no use that keeps a node running */
    PB_ROUTE_SIGN_IN = 32, /* takes tickets, and knows the key of sessions */
};

struct pb_route {
    const char *method; /* GET answers HEAD as well */
    const char *path;
    const char *doc; /* one line */
    unsigned flags;
    void (*run)(struct pb_request *rq);
    enum pb_right needs; /* what the token must allow */
};

/* In the order of routes.def; ends with NULL. */
extern const struct pb_route *const pb_routes[];

struct pb_request {
    struct pb_server *server;
    struct pb_node *node;
    const struct pb_route *const *routes;
    const struct pb_http_head *head;
    const struct pb_json *body; /* an object; NULL but for POST */
    struct pb_arena *arena;
    const char *reach; /* processes that may be asked about: "12-34,56-78"; NULL: all */
    enum pb_right right;
    struct pb_agent_client client; /* for the audit of agents */
    bool local;                /* came over the Unix socket */
    const _Atomic bool *gone;  /* nobody reads the answer any more */
    struct pb_conn *conn;
};

/* Starts an answer, or starts it anew as long as nothing was sent. */
void pb_reply_begin(struct pb_request *rq, int status, const char *type);
int pb_reply_write(struct pb_request *rq, const void *data, size_t len);
int pb_reply_puts(struct pb_request *rq, const char *text);
/* Sends what there is, and from now on in chunks. */
int pb_reply_flush(struct pb_request *rq);
/* Was something sent? Then it is too late for another status. */
bool pb_reply_sent(const struct pb_request *rq);
void pb_reply_end(struct pb_request *rq);
/*
 * Instead of that, behind bytes that were sent: the answer is not whole, for this reason. It goes
 * out as the extension of a chunk whose bytes never come, so that no client takes the answer for
 * whole and ours can say why.
 */
void pb_reply_break(struct pb_request *rq, const struct pb_err *err, long at, const char *nearest);

/*
 * A line about the answer: a header, or a trailer behind the chunks when something was sent.
 * The value goes on one line.
 */
void pb_reply_note(struct pb_request *rq, const char *name, const char *value);

/* Instead of "no-store" and a policy that permits nothing. Before anything is sent. */
void pb_reply_policy(struct pb_request *rq, const char *cache, const char *content_security);
/* All of the answer, in one piece with its length, however long. pb_reply_end follows. */
void pb_reply_whole(struct pb_request *rq, const void *data, size_t len);

/* Whole answers. */
void pb_reply_json(struct pb_request *rq, const struct pb_buf *json);
/* at: byte of the text that was asked, or -1; nearest may be "". */
void pb_reply_error(struct pb_request *rq, const struct pb_err *err, long at,
                    const char *nearest);
/* {"error":{…}} without a line end, as pb_reply_error sends it. */
void pb_reply_error_json(struct pb_buf *b, const char *code, const char *message, long at,
                         const char *nearest);
const char *pb_reply_code(enum pb_code code);

/* 101; from then on the caller uses the stream itself. What came early is in *ret_early. */
int pb_reply_upgrade(struct pb_request *rq, const char *protocol, struct pb_stream **ret,
                     const void **ret_early, size_t *ret_early_len);
/* Shuts this socket down when the client goes away; -1 to end that, before it is closed. */
void pb_request_watch(struct pb_request *rq, int fd);

/*
 * The target of a request: as given, else all that it may reach, else NULL. From the body, or the
 * parameters of a GET.
 */
const char *pb_request_target(struct pb_request *rq);
/* What it covers, and what is withheld. PB_DENIED when it is not within reach. */
int pb_request_scope(struct pb_request *rq, struct pb_scope *ret, struct pb_err *err);
/* The same of another target than the request's own. */
int pb_request_scope_of(struct pb_request *rq, const char *target, struct pb_scope *ret,
                        struct pb_err *err);
/* May this process be spoken of at all? */
bool pb_request_reaches(const struct pb_request *rq, pid_t pid, uint64_t start);
/* The one living process that it names. */
int pb_request_process(struct pb_request *rq, pid_t *ret, struct pb_err *err);
/* A parameter of a GET as a switch: "1", "true", "yes", "on" or nothing behind its name. */
bool pb_request_flag(struct pb_request *rq, const char *name);
/* A parameter of a GET as a number from 0 to max; absent: 0. */
int pb_request_number(struct pb_request *rq, const char *name, double max, double *ret,
                      struct pb_err *err);

#endif
