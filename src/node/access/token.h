/*
 * token.h - the secrets that open TCP ports, what each is good for, and for how long.
 *
 * Owns: two files in <config>/probing, <config> being $XDG_CONFIG_HOME or ~/.config:
 *     token    the user's own, readable, mode 0600, made at first use: all rights, all processes
 *     tokens   those made by `probing token new`: a line each, with a hash instead of the secret
 * Threads: any; a change of the files holds a lock on the folder, and readers see the old file or
 * the new one.
 * Fails: with a reason; a file that others can read is refused.
 * Not here: who presents a token (http/guard.h).
 */
#ifndef PB_NODE_TOKEN_H
#define PB_NODE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "host/text/arena.h"
#include "node/discover/scope.h"

/* Each includes those before it. */
enum pb_right {
    PB_RIGHT_READ,    /* SQL and stacks, without local variables and environment */
    PB_RIGHT_LOOK,    /* those as well */
    PB_RIGHT_CONTROL, /* eval, settings, loading the agent, profile */
};

enum { PB_TOKEN_MAX = 80, PB_TOKEN_NAME_MAX = 40, PB_TOKENS_MAX = 1000, PB_TOKEN_PATH_MAX = 600 };

#define PB_TOKEN_DEFAULT "default" /* the name of the user's own */

struct pb_token {
    char name[PB_TOKEN_NAME_MAX];
    char hash[PB_SHA256_TEXT];
    enum pb_right right;
    char reach[PB_PROCESS_ID_MAX]; /* one process, "<pid>-<start>"; "": all of the user's */
    int64_t created_s, expires_s;  /* since 1970; 0: never */
};

struct pb_tokens {
    struct pb_token *v; /* in the arena */
    size_t n;
};

/* "read", "look", "control". */
const char *pb_right_name(enum pb_right right);

/* The token of this user, out of the file, which is made when `make`. buf: 80 bytes. */
int pb_token_own(char *buf, size_t cap, bool make, struct pb_err *err);
/* Can it be one: 8 to 79 printable characters without blanks? */
int pb_token_check(const char *token, struct pb_err *err);
/* A new secret: 64 hexadecimal digits. */
int pb_token_make(char ret[PB_TOKEN_MAX], struct pb_err *err);
/* Where the user's own lies; "" when there is no home folder. */
void pb_token_path(char buf[PB_TOKEN_PATH_MAX]);
/* Puts a new secret into the file of the user's own. */
int pb_token_rotate_own(char ret[PB_TOKEN_MAX], struct pb_err *err);

/* Reads the tokens that have a name; none when there is no file. */
int pb_tokens_read(struct pb_tokens *ret, struct pb_arena *a, struct pb_err *err);
/* Reads, lets change() work on them, which may grow v by one, and writes them. Takes the lock. */
int pb_tokens_change(int (*change)(struct pb_tokens *t, void *arg, struct pb_err *err), void *arg,
                     struct pb_err *err);
struct pb_token *pb_tokens_find(const struct pb_tokens *t, const char *name);

/* Changes when one of the files did: to know when to read them again. */
uint64_t pb_tokens_stamp(void);

#endif
