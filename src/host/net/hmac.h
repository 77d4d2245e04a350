/*
 * hmac.h - HMAC-SHA-256 (RFC 2104): proof that a text was made by who has the key.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never.
 * Not here: SHA-256 itself (base/sha256.h), keys.
 */
#ifndef PB_HOST_NET_HMAC_H
#define PB_HOST_NET_HMAC_H

#include <stddef.h>

#include "base/sha256.h"

/* As 64 hexadecimal digits and a zero; compare with pb_sha256_same. */
void pb_hmac_text(const void *key, size_t key_len, const void *data, size_t len,
                  char ret[PB_SHA256_TEXT]);

#endif
