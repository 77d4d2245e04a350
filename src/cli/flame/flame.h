/*
 * flame.h - recordings for the command flamegraph: made now, out of history, or read from a file.
 *
 * Owns: the connection to a node, once it is needed.
 * Threads: one.
 * Fails: with ctx->err.
 * Not here: options and output (flamegraph.c).
 */
#ifndef PB_CLI_FLAME_FLAME_H
#define PB_CLI_FLAME_FLAME_H

#include "cli/cmd.h"
#include "cli/client/nodelink.h"
#include "recording/history.h"
#include "recording/sampler.h"

struct pb_flame {
    struct pb_ctx *ctx;
    struct pb_sampler_opts sampler;
    double secs;                   /* length of a recording that is made now */
    const char *from, *to, *last;  /* --from, --to, --last; NULL */
    struct pb_nodelink link;
    bool linked;
};

void pb_flame_finish(struct pb_flame *f);

/* Is it about the past? */
bool pb_flame_wants_history(const struct pb_flame *f);
/* Samples these processes for f->secs, or until Ctrl-C. */
int pb_flame_record(struct pb_flame *f, const pid_t *pids, size_t n, struct pb_recording *ret);
/* The living processes that the target names. */
int pb_flame_pids(struct pb_flame *f, pid_t **ret, size_t *ret_n);
/*
 * Out of history, of ctx->scope. window: "10m", "14:00..14:10", "20m..10m", or NULL for what the
 * options say. where: another condition in SQL, or "".
 */
int pb_flame_history(struct pb_flame *f, const char *window, const char *where, bool by_process,
                     struct pb_recording *ret);
/* The same of a window that is known already; f is linked. */
int pb_flame_window(struct pb_flame *f, const struct pb_history_window *w, const char *where,
                    bool by_process, struct pb_recording *ret);
/* Lines of the program for frames that matter, where they can be read. */
void pb_flame_read_source(struct pb_recording *r);
/* --diff A B: what B is, with A beside it. */
int pb_flame_diff(struct pb_flame *f, const char *a, const char *b, struct pb_recording *ret);

#endif
