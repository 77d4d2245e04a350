/*
 * diagnose.h - verdicts: what `diagnose`, `hang`, `slow` and `leak` share.
 *
 * Owns: nothing; answers live in the context's arena.
 * Threads: one.
 * Fails: with ctx->err set. A verdict is no failure: it is exit code PB_EXIT_VERDICT.
 * Not here: the rules (share/verdicts), the facts (node/waits).
 */
#ifndef PB_CLI_DIAGNOSE_DIAGNOSE_H
#define PB_CLI_DIAGNOSE_DIAGNOSE_H

#include "cli/cmd.h"
#include "cli/client/nodelink.h"
#include "node/query/ended.h"

enum { PB_EXIT_VERDICT = 10 };

extern const struct pb_opt pb_diagnose_options[];

/* Looks at the target and prints; kinds: "hang|slow", NULL for all. */
int pb_diagnose(struct pb_ctx *ctx, const char *kinds);

/* diagnose_show.c */
struct pb_verdict {
    const char *kind, *class, *confidence, *host, *file, *func, *since, *what, *why, *next, *rule;
    const char *evidence, *refine; /* SQL */
    int64_t pid, tid, line;     /* 0: none */
    double since_s;             /* seconds since it began */
    const char *ranks, *victims; /* "0,3"; "pid 12; pid 13" */
};

/* As the options say: text with or without evidence, or JSON. */
int pb_verdicts_show(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_verdict *v,
                     size_t n);
void pb_verdict_text(struct pb_ctx *ctx, const struct pb_verdict *v);
int pb_verdict_evidence(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_verdict *v);
int pb_verdicts_json(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_verdict *v,
                     size_t n);
/* diagnose_ended.c: of a target that no longer lives; -1 when it is gone and no verdict is due. */
int pb_diagnose_ended(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds,
                      struct pb_verdict *ret, size_t *ret_n);
/* Is it a crash or a kill? NULL: not known. */
bool pb_is_bad_end(const char *how);
void pb_verdict_of_end(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_ended *d,
                       struct pb_verdict *ret);

/* diagnose_watch.c: the processes of the scope while they are watched. */
#define PB_WATCHED_MAX 64

struct pb_watched {
    struct {
        pid_t pid;
        int pidfd;
    } v[PB_WATCHED_MAX];
    size_t n;
    bool any; /* whether there were some to begin with */
};

void pb_watched_open(struct pb_watched *w, const struct pb_ctx *ctx);
/* Of those that have ended: how, unless the verdicts of this look tell of the crash. */
int pb_watched_say_ends(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds,
                        struct pb_watched *watched, const struct pb_verdict *v, size_t n);
void pb_watched_close(struct pb_watched *w);

/* diagnose_graph.c: who waits for whom. */
int pb_diagnose_graph(struct pb_ctx *ctx, struct pb_nodelink *link, bool dot);

#endif
