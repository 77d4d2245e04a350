/*
 * json_write.h - JSON written into a growing string.
 *
 * Owns: nothing.
 * Threads: one for each string.
 * Fails: never; text that is not UTF-8 becomes U+FFFD.
 * Not here: reading JSON (json.h).
 */
#ifndef PB_HOST_TEXT_JSON_WRITE_H
#define PB_HOST_TEXT_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "host/text/buf.h"

/*
 * Writes a quoted JSON string. Bytes that are not valid UTF-8 come out as
 * U+FFFD, so that the result is always valid JSON.
 */
void pb_json_string(struct pb_buf *b, const char *s);
/* Writes `"key":` with a comma in front unless the object or array was just opened. */
void pb_json_key(struct pb_buf *b, const char *key);
void pb_json_comma(struct pb_buf *b);
void pb_json_int(struct pb_buf *b, int64_t v);
void pb_json_bool(struct pb_buf *b, bool v);
/* The string, or null. */
void pb_json_string_or_null(struct pb_buf *b, const char *s);

/* JSON that somebody else has written, with such characters of its texts escaped: see below. */
void pb_json_shown(struct pb_buf *b, const char *json);
/*
 * Does a terminal take the character of n bytes for a command, or does it turn the text around?
 * C1, marks and overrides of direction, separators of lines.
 */
bool pb_utf8_is_hidden(const char *text, size_t n);

#endif
