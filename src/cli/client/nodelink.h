/*
 * nodelink.h - a command's connection to a node: the local one, which is started if need be,
 * one at host:port, or for --store one inside this very process.
 *
 * Owns: the connection.
 * Threads: one; Ctrl-C cancels the question that is out.
 * Fails: with one line in ctx->err; 401 becomes PB_DENIED with what to do about the token; an
 * error in SQL comes with the line and a caret as ctx->note. Ctrl-C: ctx->interrupted, no text.
 * Not here: HTTP (host/net/http.h), starting a node (node/serve/serve.h), how answers are
 * shown (display/result.h).
 */
#ifndef PB_CLI_CLIENT_NODELINK_H
#define PB_CLI_CLIENT_NODELINK_H

#include <stdint.h>

#include "cli/cmd.h"
#include "host/net/http.h"
#include "host/text/json.h"

struct pb_node;

struct pb_nodelink {
    struct pb_http_client *http; /* NULL for --store */
    struct pb_node *node;        /* --store only */
    bool remote;
};

/* Goes by ctx->store and ctx->remote; neither: this user's node on this machine. */
int pb_nodelink_open(struct pb_ctx *ctx, struct pb_nodelink *n);
void pb_nodelink_close(struct pb_nodelink *n);

/* The token by --token, --token-file or $PROBING_TOKEN; NULL: none was given. */
int pb_nodelink_token(struct pb_ctx *ctx, const char **ret);

/*
 * Sets ctx->token to that of the cluster of this machine's node, where the node was given one and
 * none was given here: its members have it. What fails is silent.
 */
void pb_nodelink_cluster_token(struct pb_ctx *ctx, struct pb_nodelink *n);

/* Where ctx->remote is, and with which token. */
int pb_nodelink_where(struct pb_ctx *ctx, struct pb_http_where *ret);

/* A question in SQL; ctx->scope says whose rows. */
struct pb_question {
    const char *sql;
    const char *format; /* "rows", "json", "ndjson", "csv", "parquet" */
    uint64_t max_rows;  /* most rows of each statement; 0: all */
    int timeout_ms;     /* 0: the setting query.timeout */
    bool quiet;         /* no reason for an empty answer is wanted */
    bool silent;        /* no notices on stderr: they have been there */
    bool living;        /* without a target: of living processes only */
    const char *cluster; /* "true", "auto" (as the node is) or NULL: this node alone; JSON */
    pb_http_sink *sink; /* bytes of the answer; "rows": whole lines, one a call, no newline */
    void *arg;
};

struct pb_answer {
    uint64_t rows;
    bool truncated;    /* max_rows cut something off */
    uint64_t left_out; /* how many rows; PB_SQL_UNKNOWN when it is not known */
    double ms;         /* in the node */
    bool partial;      /* some node of the cluster is missing; a notice has said which */
    uint64_t bytes;    /* bytes received from the nodes of a cluster */
    int64_t nodes;     /* nodes of a cluster that answered; 0: none was asked */
    int64_t living, ended; /* processes that a question without a target covered; -1: not told */
};

/* What pb_question.cluster is to be: "true" when the command is about all nodes, else NULL. */
const char *pb_nodelink_cluster(const struct pb_ctx *ctx);
/* Notices of the node go to stderr, unless silent. ret may be NULL. */
int pb_nodelink_query(struct pb_ctx *ctx, struct pb_nodelink *n, const struct pb_question *q,
                      struct pb_answer *ret);

/*
 * A small answer, parsed, in ctx->arena: each of *ret_rows is an array of cells.
 * Of all nodes when the command is about the cluster.
 */
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

#endif
