/*
 * sha256.h - SHA-256 (FIPS 180-4): to compare secrets that are not kept, and to name long texts.
 *
 * Owns: nothing; the state is the caller's memory.
 * Threads: any; one writer per object.
 * Fails: never.
 * Not here: random numbers, slow hashes for passwords.
 */
#ifndef PB_BASE_SHA256_H
#define PB_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PB_SHA256_BYTES = 32, PB_SHA256_TEXT = 65 };

struct pb_sha256 {
    uint32_t state[8];
    uint64_t total; /* bytes so far */
    unsigned char block[64];
};

void pb_sha256_init(struct pb_sha256 *h);
void pb_sha256_add(struct pb_sha256 *h, const void *data, size_t len);
void pb_sha256_finish(struct pb_sha256 *h, unsigned char ret[PB_SHA256_BYTES]);
/* All of it at once, as 64 hexadecimal digits and a zero. */
void pb_sha256_text(const void *data, size_t len, char ret[PB_SHA256_TEXT]);
/* Are two hashes in hexadecimal the same? Takes the same time wherever they differ. */
bool pb_sha256_same(const char a[PB_SHA256_TEXT], const char b[PB_SHA256_TEXT]);

#endif
