/*
 * nodelink.h - a command's connection to a node: the local one, which is started if need be,
 * one at host:port, or for --store one inside this very process.
 *
 * Owns: the connection.
 * Threads: one; Ctrl-C cancels the question that is out.
 * Fails: with one line in ctx->err; 401 becomes PB_DENIED with what to do about the token; an
 * error in SQL comes with the line and a caret as ctx->note. Ctrl-C: ctx->interrupted, no text.
 * Not here: HTTP (host/http.h), starting a node (nodestart.c), tables for people (show/result.h).
 */
#ifndef PB_CLI_NODELINK_H
#define PB_CLI_NODELINK_H

#include <stdint.h>

#include "cli/cmd.h"
#include "host/http.h"
#include "host/json.h"

struct pb_node;

struct pb_nodelink {
    struct pb_http_client *http; /* NULL for --store */
    struct pb_node *node;        /* --store only */
    bool remote;
};

/* Goes by ctx->store and ctx->remote; neither: this user's node on this machine. */
int pb_nodelink_open(struct pb_ctx *ctx, struct pb_nodelink *n);
void pb_nodelink_close(struct pb_nodelink *n);
/* Starts this user's node unless it runs; waits until it answers. Used by serve too. */
int pb_nodelink_start(struct pb_ctx *ctx);

/* The token by --token, --token-file or $PROBING_TOKEN; NULL: none was given. */
int pb_nodelink_token(struct pb_ctx *ctx, const char **ret);

/* A question in SQL; ctx->scope says whose rows. */
struct pb_question {
    const char *sql;
    const char *format; /* "rows", "json", "ndjson", "csv", "parquet" */
    uint64_t max_rows;  /* of each statement; 0: all */
    int timeout_ms;     /* 0: the setting query.timeout */
    bool quiet;         /* no reason for an empty answer is wanted */
    bool living;        /* without a target: of living processes only */
    pb_http_sink *sink; /* bytes of the answer; "rows": whole lines, one a call, no newline */
    void *arg;
};

struct pb_answer {
    uint64_t rows;
    bool truncated;    /* max_rows cut something off */
    uint64_t left_out; /* how many rows; PB_SQL_UNKNOWN (node/sql/engine.h) when it is not known */
    double ms;         /* in the node */
    int64_t living, ended; /* processes that a question without a target covered; -1: not told */
};

/* Notices of the node go to stderr. ret may be NULL. */
int pb_nodelink_query(struct pb_ctx *ctx, struct pb_nodelink *n, const struct pb_question *q,
                      struct pb_answer *ret);

/* A small answer, parsed, in ctx->arena: each of *ret_rows is an array of cells. */
int pb_nodelink_rows(struct pb_ctx *ctx, struct pb_nodelink *n, const char *sql,
                     const struct pb_json ***ret_rows, size_t *ret_n);

/* The byte stream to the agent of the target at ctx->remote (base/wire.h), or -1. */
int pb_nodelink_agent(struct pb_ctx *ctx, bool inject, struct pb_err *err);

/*
 * Any other question to the node (not for --store): the body of the answer is added to *ret.
 * A status other than 200 is an error.
 */
int pb_nodelink_ask(struct pb_ctx *ctx, struct pb_nodelink *n, const char *method,
                    const char *path, const char *body, struct pb_buf *ret);
/* A text made for people, by GET, into ctx->out; a terminal gets no more of it than colours. */
int pb_nodelink_text(struct pb_ctx *ctx, struct pb_nodelink *n, const char *path);

#endif
