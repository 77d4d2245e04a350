#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t v, int n)
{
    return v >> n | v << (32 - n);
}

static void mix_block(uint32_t state[8], const unsigned char *p)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + rounds[i] + w[i];
        uint32_t two = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void pb_sha256_init(struct pb_sha256 *h)
{
    /* The square roots of the first 8 primes. */
    *h = (struct pb_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void pb_sha256_add(struct pb_sha256 *h, const void *data, size_t len)
{
    const unsigned char *p = data;

    while (len) {
        size_t at = h->total % sizeof h->block, n = sizeof h->block - at;

        if (n > len)
            n = len;
        memcpy(h->block + at, p, n);
        h->total += n;
        p += n;
        len -= n;
        if (at + n == sizeof h->block)
            mix_block(h->state, h->block);
    }
}

void pb_sha256_finish(struct pb_sha256 *h, unsigned char ret[PB_SHA256_BYTES])
{
    uint64_t bits = h->total * 8;
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    pb_sha256_add(h, "\x80", 1);
    while (h->total % sizeof h->block != sizeof h->block - sizeof length)
        pb_sha256_add(h, "", 1);
    pb_sha256_add(h, length, sizeof length);
    for (int i = 0; i < PB_SHA256_BYTES; i++)
        ret[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void pb_sha256_text(const void *data, size_t len, char ret[PB_SHA256_TEXT])
{
    unsigned char bytes[PB_SHA256_BYTES];
    struct pb_sha256 h;

    pb_sha256_init(&h);
    pb_sha256_add(&h, data, len);
    pb_sha256_finish(&h, bytes);
    for (int i = 0; i < PB_SHA256_BYTES; i++) {
        ret[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        ret[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    ret[PB_SHA256_TEXT - 1] = '\0';
}

bool pb_sha256_same(const char a[PB_SHA256_TEXT], const char b[PB_SHA256_TEXT])
{
    volatile unsigned char differs = 0;

    for (int i = 0; i < PB_SHA256_TEXT - 1; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}
