/*
 * argv.h - the words of the command line as text, without the secrets in them.
 *
 * Owns: nothing; copies are in the caller's arena.
 * Threads: one.
 * Fails: never.
 * Not here: what the words mean (parse.h).
 */
#ifndef PB_CLI_LINE_ARGV_H
#define PB_CLI_LINE_ARGV_H

#include "host/text/arena.h"

/* The words as a shell would need them typed, "probing" first; a token is shown as ***. */
const char *pb_argv_quote(struct pb_arena *a, char **argv);

/*
 * The command line of a process is for everybody to read: a token in it is overwritten, and used
 * from a copy.
 */
void pb_argv_hide_tokens(struct pb_arena *a, char **argv);

#endif
