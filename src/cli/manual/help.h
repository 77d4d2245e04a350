/*
 * help.h - help and usage, made from the descriptors.
 *
 * Owns: nothing. Threads: one.
 * Fails: never.
 * Not here: the manual page (man.c), completion (completion.c).
 */
#ifndef PB_CLI_MANUAL_HELP_H
#define PB_CLI_MANUAL_HELP_H

#include "cli/cmd.h"

#define PB_TITLE "Probing CLI - A performance and stability diagnostic tool for AI applications"
#define PB_TARGET_HELP \
    "PID (e.g., 1234), a part of its command line (e.g., train.py), job:<script> for all " \
    "ranks and their workers, or <ip>:<port>"

/* The whole page: for one command, or for all when cmd is NULL. */
void pb_help_print(struct pb_print *out, const struct pb_cmd *cmd);
/* "probing [OPTIONS] TARGET backtrace [OPTIONS] [TID]", without a newline. */
void pb_help_usage(struct pb_buf *out, const struct pb_cmd *cmd);
/* "-f, --format <FORMAT>" */
char *pb_help_option_name(struct pb_arena *a, const struct pb_opt *o);
/* "[TID]", "<SHELL>", "[CODE]..." */
char *pb_help_positional_name(struct pb_arena *a, const struct pb_positional *p);

#endif
