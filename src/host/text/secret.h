/*
 * secret.h - texts as they may be shown: without passwords, tokens and keys.
 *
 * Owns: nothing; text goes into the caller's arena, or is what came in when nothing is hidden.
 * Threads: any.
 * Fails: never.
 * Not here: where texts come from, and who may see them whole.
 *
 * What is hidden becomes "***":
 *   by name    PASSWORD=…, --api-key …, 'token': '…', Authorization: Bearer …
 *   in a URL   scheme://user:…@host
 *   by form    ghp_…, hf_…, sk-…, AKIA…, xoxb-…, eyJ….….…, -----BEGIN … PRIVATE KEY-----
 */
#ifndef PB_HOST_TEXT_SECRET_H
#define PB_HOST_TEXT_SECRET_H

#include <stddef.h>

#include "host/text/arena.h"

/* A command line, a value as Python shows it, or any other text. */
const char *pb_secret_text(const char *text, struct pb_arena *a);
/* One word of a command line, which knows the one before it: "--password", "geheim". */
const char *pb_secret_argument(const char *before, const char *word, struct pb_arena *a);
/*
 * A command line with its words apart, a zero behind each; `text` is the same with blanks between
 * them, and what is shown when there are no words.
 */
const char *pb_secret_command(const char *words, size_t len, const char *text, struct pb_arena *a);
/* The value of an environment variable: in doubt it is a secret. */
const char *pb_secret_env(const char *name, const char *value, struct pb_arena *a);
/*
 * The value of a local variable as Python shows it. By its name only text is hidden: in training
 * code a token is mostly a number, and a key a tensor.
 */
const char *pb_secret_local(const char *name, const char *value, struct pb_arena *a);

#endif
