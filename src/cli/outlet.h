/*
 * outlet.h - where a command's answer goes: stdout, a pager, or a file that appears when whole.
 *
 * Owns: ctx->out's descriptor while it is open, the temporary file, the pager's process.
 * Threads: one.
 * Fails: with ctx->err; a file that is not finished leaves nothing behind.
 * Not here: what is printed.
 */
#ifndef PB_CLI_OUTLET_H
#define PB_CLI_OUTLET_H

#include <signal.h>

#include "cli/cmd.h"

struct pb_outlet {
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
int pb_outlet_open(struct pb_ctx *ctx, struct pb_outlet *o, const char *path, bool page);
/* Writes what ctx->out has collected. Call it now and then, and look at ctx->out.broken. */
int pb_outlet_flush(struct pb_outlet *o);
/* Writes the rest and waits for the pager. whole: the file gets its name; else it goes away. */
int pb_outlet_close(struct pb_outlet *o, bool whole);
/* Lines of the terminal, or 0. */
int pb_outlet_screen(void);

#endif
