#include "host/net/hmac.h"

#include <string.h>

enum { BLOCK = 64 };

static void digest(const unsigned char pad[BLOCK], const void *data, size_t len,
                   unsigned char ret[PB_SHA256_BYTES])
{
    struct pb_sha256 h;

    pb_sha256_init(&h);
    pb_sha256_add(&h, pad, BLOCK);
    pb_sha256_add(&h, data, len);
    pb_sha256_finish(&h, ret);
}

void pb_hmac_text(const void *key, size_t key_len, const void *data, size_t len,
                  char ret[PB_SHA256_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char block[BLOCK] = {0}, inner[BLOCK], outer[BLOCK], sum[PB_SHA256_BYTES];
    struct pb_sha256 h;

    if (key_len > BLOCK) { /* a long key is hashed first */
        pb_sha256_init(&h);
        pb_sha256_add(&h, key, key_len);
        pb_sha256_finish(&h, block);
    } else {
        memcpy(block, key, key_len);
    }
    for (int i = 0; i < BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    digest(inner, data, len, sum);
    digest(outer, sum, sizeof sum, sum);
    for (int i = 0; i < PB_SHA256_BYTES; i++) {
        ret[2 * i] = digits[sum[i] >> 4];
        ret[2 * i + 1] = digits[sum[i] & 15];
    }
    ret[PB_SHA256_TEXT - 1] = '\0';
}
