/*
 * varint.h - writing protocol buffers: numbers, texts and messages inside of messages.
 *
 * Owns: nothing; bytes go into the caller's buffers.
 * Threads: any.
 * Fails: never.
 * Not here: which fields a format has (formats/).
 */
#ifndef PB_RECORDING_TIMELINE_VARINT_H
#define PB_RECORDING_TIMELINE_VARINT_H

#include <string.h>

#include "host/text/buf.h"

static inline void pb_varint(struct pb_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        pb_buf_putc(b, (char)(v | 0x80));
    pb_buf_putc(b, (char)v);
}

/* A field that is a number. */
static inline void pb_varint_field(struct pb_buf *b, unsigned number, uint64_t v)
{
    pb_varint(b, (uint64_t)number << 3);
    pb_varint(b, v);
}

static inline void pb_varint_bytes(struct pb_buf *b, unsigned number, const void *data, size_t len)
{
    pb_varint(b, (uint64_t)number << 3 | 2);
    pb_varint(b, len);
    if (len)
        pb_buf_add(b, data, len);
}

/* A message; what is inside is emptied for the next one. */
static inline void pb_varint_message(struct pb_buf *b, unsigned number, struct pb_buf *inner)
{
    pb_varint_bytes(b, number, inner->data, inner->len);
    pb_buf_clear(inner);
}

/* Readers want valid UTF-8. */
static inline void pb_varint_text(struct pb_buf *b, unsigned number, const char *text)
{
    struct pb_buf clean = PB_BUF_INIT;

    while (*text) {
        size_t n = pb_utf8_len(text);

        if (n)
            pb_buf_add(&clean, text, n);
        else
            pb_buf_puts(&clean, "\xef\xbf\xbd");
        text += n ? n : 1;
    }
    pb_varint_bytes(b, number, clean.data ? clean.data : "", clean.len);
    pb_buf_finish(&clean);
}

#endif
