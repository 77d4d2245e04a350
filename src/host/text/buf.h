/*
 * buf.h - a growing byte string.
 *
 * Owns: its bytes.
 * Threads: one.
 * Fails: never; ends the process when memory is exhausted (outside only).
 * Not here: JSON (json_write.h), colours, widths (display/print.h).
 */
#ifndef PB_HOST_TEXT_BUF_H
#define PB_HOST_TEXT_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb_buf {
    char *data; /* always terminated once something was added; NULL before */
    size_t len, cap;
};

#define PB_BUF_INIT {0}

void pb_buf_finish(struct pb_buf *b);
void pb_buf_clear(struct pb_buf *b);
/* Back to a length that it had before. */
void pb_buf_cut(struct pb_buf *b, size_t len);
void pb_buf_add(struct pb_buf *b, const void *data, size_t len);
void pb_buf_puts(struct pb_buf *b, const char *s);
void pb_buf_putc(struct pb_buf *b, char c);
void pb_buf_vprintf(struct pb_buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
void pb_buf_printf(struct pb_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Bytes of the valid UTF-8 character that a terminated string starts with; 0 when it is none. */
size_t pb_utf8_len(const char *text);
/* How many bytes at the end are the beginning of a UTF-8 character whose rest is to come. */
size_t pb_utf8_unfinished(const char *s, size_t len);

#endif
