/*
 * token_files.h - what token.c and tokens.c share: files that hold secrets.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: with a reason.
 * Not here: what is in them (token.h).
 */
#ifndef PB_NODE_TOKEN_FILES_H
#define PB_NODE_TOKEN_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* "<config>/probing" */
int pb_token_dir(char *buf, size_t cap, struct pb_err *err);
/* Makes it and those above; the text is changed meanwhile. */
int pb_token_make_dirs(char *dir, struct pb_err *err);
/* Ours or root's, and nobody else can read it? */
int pb_token_check_file(int fd, const char *path, struct pb_err *err);
/* Appears whole, mode 0600. Without replace a file that is there stays as it is. */
int pb_token_write_file(const char *path, const char *text, size_t len, bool replace,
                        struct pb_err *err);

#endif
