/*
 * text.h - bytes of text as a ring keeps them, and the order in which memory is seen.
 *
 * Owns: nothing.
 * Threads: any; safe in signal handlers.
 * Fails: never.
 * Not here: what a text is for (writer.h, reader.h).
 */
#ifndef PB_STORE_TEXT_H
#define PB_STORE_TEXT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PB_TEXT_HASH UINT32_C(2166136261)

/* FNV-1a, one step. */
static inline uint32_t pb_text_hash_byte(uint32_t hash, char c)
{
    return (hash ^ (unsigned char)c) * UINT32_C(16777619);
}

/* The hash as it stands in an entry, where 0 means that the entry is not complete. */
static inline uint32_t pb_text_hash_end(uint32_t hash)
{
    return hash ? hash : 1;
}

/*
 * What the hash of a text in the heap begins with. Its position is in it: a writer that was
 * overtaken by a whole circle may complete its entry over a newer one, and then a plain hash would
 * be right.
 */
static inline uint32_t pb_text_seed(uint64_t position)
{
    return PB_TEXT_HASH ^ (uint32_t)(position / 8);
}

static inline uint32_t pb_text_hash(uint32_t hash, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = pb_text_hash_byte(hash, s[i]);
    return pb_text_hash_end(hash);
}

/* The length of at most max bytes that does not end inside a UTF-8 character. */
static inline size_t pb_text_cut(const char *s, size_t len, size_t max)
{
    size_t n = max;

    if (len <= max)
        return len;
    while (n > 0 && max - n < 3 && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return ((unsigned char)s[n] & 0xc0) == 0x80 ? max : n;
}

/* Bytes that an entry of the dictionary or the heap takes: a head of 8 and the text, rounded up. */
static inline uint64_t pb_text_space(uint64_t len)
{
    return (8 + len + 7) & ~UINT64_C(7);
}

/*
 * Fences. The thread sanitizer does not follow them and the compiler says so; it needs not: all
 * that they order is atomic anyway, and what it must see is also ordered by acquire and release.
 */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* Writer: what was stored before is seen by whoever sees a store that comes behind. */
static inline void pb_fence_release(void)
{
    atomic_thread_fence(memory_order_release);
}

/* Reader: what is loaded behind is no older than what the loads before have shown. */
static inline void pb_fence_acquire(void)
{
    atomic_thread_fence(memory_order_acquire);
}

#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
