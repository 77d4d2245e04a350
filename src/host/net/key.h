/*
 * key.h - what a token becomes on a network: a key that proves it without sending it.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: only when the library has no memory.
 * Not here: files of tokens (node/access/token.h), TLS (tls.h).
 *
 * The key is derived from the SHA-256 of the token, which is all that a node keeps of most tokens.
 * Tokens that probing made have 256 random bits. Of others somebody who listens could try likely
 * ones in his own time, so for those each trial takes KEY_ROUNDS hashes. The public name of a key
 * comes from the key and not from the token, for the same reason.
 */
#ifndef PB_HOST_NET_KEY_H
#define PB_HOST_NET_KEY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/sha256.h"

enum { PB_KEY_BYTES = 32, PB_KEY_ID = 33 };

struct pb_key {
    unsigned char secret[PB_KEY_BYTES];
    char id[PB_KEY_ID]; /* 32 hexadecimal digits: what is said in the open */
};

int pb_key_of_token(struct pb_key *ret, const char *token, struct pb_err *err);
/* The same from its hash. is_random: it is one that pb_token_make made. */
int pb_key_of_hash(struct pb_key *ret, const char hash[PB_SHA256_TEXT], bool is_random,
                   struct pb_err *err);

#endif
