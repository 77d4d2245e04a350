/*
 * cursor.h - reading little-endian binary formats without trusting them.
 *
 * Owns: nothing. Threads: any. Not here: meaning.
 * Fails: a read past the end gives 0 and sets `bad` for good; callers check
 * once, after a group of reads.
 */
#ifndef PB_STACK_NATIVE_CURSOR_H
#define PB_STACK_NATIVE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pb_cursor {
    const uint8_t *p, *end;
    bool bad;
};

static inline struct pb_cursor pb_cursor_make(const uint8_t *data, size_t size)
{
    if (!size) /* one that is not there may be at NULL, to which nothing can be added */
        data = (const uint8_t *)"";
    return (struct pb_cursor){data, data + size, false};
}

static inline size_t pb_cursor_left(const struct pb_cursor *c)
{
    return (size_t)(c->end - c->p);
}

static inline bool pb_cursor_done(const struct pb_cursor *c)
{
    return c->bad || c->p == c->end;
}

static inline void pb_cursor_fail(struct pb_cursor *c)
{
    c->bad = true;
    c->p = c->end;
}

static inline void pb_cursor_skip(struct pb_cursor *c, uint64_t n)
{
    if (n > pb_cursor_left(c))
        pb_cursor_fail(c);
    else
        c->p += n;
}

/* The next n bytes as a cursor of their own. */
static inline struct pb_cursor pb_cursor_bytes(struct pb_cursor *c, uint64_t n)
{
    struct pb_cursor part = {c->p, c->p, false};

    if (n > pb_cursor_left(c)) {
        pb_cursor_fail(c);
        part.bad = true;
        return part;
    }
    part.end = c->p + n;
    c->p += n;
    return part;
}

/* size: 1 to 8. */
static inline uint64_t pb_cursor_uint(struct pb_cursor *c, size_t size)
{
    uint64_t v = 0;

    if (size > pb_cursor_left(c)) {
        pb_cursor_fail(c);
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        v |= (uint64_t)c->p[i] << (8 * i);
    c->p += size;
    return v;
}

static inline uint8_t pb_cursor_u8(struct pb_cursor *c)
{
    if (c->p == c->end) {
        c->bad = true;
        return 0;
    }
    return *c->p++;
}

static inline uint16_t pb_cursor_u16(struct pb_cursor *c)
{
    return (uint16_t)pb_cursor_uint(c, 2);
}

static inline uint32_t pb_cursor_u32(struct pb_cursor *c)
{
    return (uint32_t)pb_cursor_uint(c, 4);
}

static inline uint64_t pb_cursor_u64(struct pb_cursor *c)
{
    return pb_cursor_uint(c, 8);
}

static inline uint64_t pb_cursor_uleb(struct pb_cursor *c)
{
    uint64_t v = 0;
    unsigned shift = 0;
    uint8_t b;

    do {
        b = pb_cursor_u8(c);
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
    } while ((b & 0x80) && !c->bad);
    return v;
}

static inline int64_t pb_cursor_sleb(struct pb_cursor *c)
{
    uint64_t v = 0;
    unsigned shift = 0;
    uint8_t b;

    do {
        b = pb_cursor_u8(c);
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
    } while ((b & 0x80) && !c->bad);
    if (shift < 64 && (b & 0x40))
        v |= ~(uint64_t)0 << shift;
    return (int64_t)v;
}

/* A NUL-terminated string inside the data, or NULL. */
static inline const char *pb_cursor_string(struct pb_cursor *c)
{
    const uint8_t *nul = c->p < c->end ? memchr(c->p, 0, pb_cursor_left(c)) : NULL;
    const char *s = (const char *)c->p;

    if (!nul) {
        pb_cursor_fail(c);
        return NULL;
    }
    c->p = nul + 1;
    return s;
}

#endif
