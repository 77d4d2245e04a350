/*
 * sqltext.h - SQL as the user typed it: recognising it, and pointing into it.
 *
 * Owns: nothing; text goes into the caller's arena.
 * Threads: any. Fails: never.
 * Not here: what SQL means (node/sql/).
 */
#ifndef PB_CLI_SQLTEXT_H
#define PB_CLI_SQLTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "host/text/arena.h"

/* Does a word of the command line look like a statement: "SELECT 1", not "select" or "train.py"? */
bool pb_sqltext_looks(const char *word);
/*
 * The line that holds byte `at`, and a caret under it, both indented by two blanks; cut to
 * width columns around the caret unless that is 0. NULL when `at` is not in the text.
 */
const char *pb_sqltext_caret(struct pb_arena *a, const char *sql, long at, size_t width);

#endif
