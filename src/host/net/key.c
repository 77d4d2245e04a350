#include "host/net/key.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define KEY_ROUNDS 200000
/* 64 hexadecimal digits. */
#define RANDOM_LENGTH 64

static bool is_random(const char *token)
{
    return strlen(token) == RANDOM_LENGTH && strspn(token, "0123456789abcdef") == RANDOM_LENGTH;
}

static int mac(const unsigned char *key, size_t len, const char *text,
               unsigned char ret[PB_KEY_BYTES])
{
    unsigned size = PB_KEY_BYTES;

    return HMAC(EVP_sha256(), key, (int)len, (const unsigned char *)text, strlen(text), ret, &size)
               ? 0
               : -1;
}

int pb_key_of_hash(struct pb_key *ret, const char hash[PB_SHA256_TEXT], bool random,
                   struct pb_err *err)
{
    static const char salt[] = "probing token key 1";
    unsigned char id[PB_KEY_BYTES];
    int rc;

    /* A random token needs no stretching: one round of the same construction. */
    rc = PKCS5_PBKDF2_HMAC(hash, PB_SHA256_TEXT - 1, (const unsigned char *)salt, sizeof salt - 1,
                           random ? 1 : KEY_ROUNDS, EVP_sha256(), PB_KEY_BYTES, ret->secret);
    if (rc != 1 || mac(ret->secret, PB_KEY_BYTES, "probing key id 1", id) < 0)
        return pb_err_set(err, PB_FAIL, "token: no key can be made of it");
    for (int i = 0; i < PB_KEY_ID / 2; i++)
        snprintf(ret->id + 2 * i, 3, "%02x", id[i]);
    return 0;
}

int pb_key_of_token(struct pb_key *ret, const char *token, struct pb_err *err)
{
    char hash[PB_SHA256_TEXT];

    pb_sha256_text(token, strlen(token), hash);
    return pb_key_of_hash(ret, hash, is_random(token), err);
}
