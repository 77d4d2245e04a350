/*
 * utf8.h - characters as UTF-8.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never.
 * Not here: checking bytes that are said to be UTF-8 (host/text/buf.h).
 */
#ifndef PB_BASE_UTF8_H
#define PB_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define PB_UTF8_MAX 4

/* Writes 1 to PB_UTF8_MAX bytes without a zero behind them; returns how many. c < 0x110000. */
static inline size_t pb_utf8_put(char *out, uint32_t c)
{
    size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};

    out[0] = (char)(lead[more] | c >> 6 * more);
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> 6 * (more - i) & 63));
    return 1 + more;
}

/* The character, or U+FFFD for what cannot be in a C string or in UTF-8: 0, halves of a pair. */
static inline uint32_t pb_utf8_or_replacement(uint32_t c)
{
    return c == 0 || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff ? 0xfffd : c;
}

#endif
