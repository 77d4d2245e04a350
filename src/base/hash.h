/*
 * hash.h - FNV-1a, 64 bits: quick, and the same on every machine and in every version.
 *
 * Owns: nothing. Threads: any; safe in signal handlers. Fails: never.
 * Not here: secrets (sha256.h), the 32 bits that stand in the files of rings (store/text.h).
 */
#ifndef PB_BASE_HASH_H
#define PB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define PB_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* One step: of a byte, or of a number as a whole. */
static inline uint64_t pb_hash_step(uint64_t hash, uint64_t v)
{
    return (hash ^ v) * UINT64_C(0x100000001b3);
}

static inline uint64_t pb_hash_bytes(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++)
        hash = pb_hash_step(hash, p[i]);
    return hash;
}

static inline uint64_t pb_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = pb_hash_step(hash, (unsigned char)*text);
    return hash;
}

#endif
