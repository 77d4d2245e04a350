/*
 * destination.h - where a command's answer goes: stdout, a pager, or a file that appears when
 * whole.
 *
 * Owns: ctx->out's descriptor while it is open, the temporary file, the pager's process.
 * Threads: one.
 * Fails: with ctx->err; a file that is not finished leaves nothing behind.
 * Not here: what is printed.
 */
#ifndef PB_CLI_DESTINATION_H
#define PB_CLI_DESTINATION_H

#include <signal.h>

#include "cli/cmd.h"

struct pb_destination {
    struct pb_ctx *ctx;
    struct pb_print stdout_print; /* how ctx->out was before */
    const char *path, *temporary; /* a file; NULL otherwise */
    bool pages;                   /* a pager may be started */
    pid_t pager;                  /* 0: none */
    struct sigaction interrupt;   /* what Ctrl-C did before the pager got it */
};

/*
 * path: NULL or "-" for stdout. page: on a terminal, text longer than the screen goes through
 * $PROBING_PAGER, $PAGER or less; empty or "cat" for none.
 */
int pb_destination_open(struct pb_ctx *ctx, struct pb_destination *o, const char *path, bool page);
/*
 * Whether a file of that name could be made, before the work that is to fill it; nothing stays.
 * Pipes and devices are not looked at: whoever reads there would see an end.
 */
int pb_destination_check(struct pb_ctx *ctx, const char *path);
/* Writes what ctx->out has collected. Call it now and then, and look at ctx->out.broken. */
int pb_destination_flush(struct pb_destination *o);
/* Writes the rest and waits for the pager. whole: the file gets its name; else it goes away. */
int pb_destination_close(struct pb_destination *o, bool whole);
/* A descriptor of that folder, made if it is not there; no link of another user is followed. */
int pb_destination_folder(struct pb_ctx *ctx, const char *path);
/* Lines of the terminal, or 0. */
int pb_destination_screen(void);

#endif
