/*
 * json.h - reading JSON that somebody else wrote.
 *
 * Owns: nothing; values live in the caller's arena and point into nothing else.
 * Threads: any.
 * Fails: with one line that says what is wrong and at which byte. Bounds: PB_JSON_DEPTH levels,
 * PB_JSON_VALUES values, the length given; duplicate keys: the last one counts.
 * Not here: writing JSON (json_write.h).
 */
#ifndef PB_HOST_TEXT_JSON_H
#define PB_HOST_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/arena.h"

enum { PB_JSON_DEPTH = 64, PB_JSON_VALUES = 1 << 20 };

enum pb_json_type {
    PB_J_NULL,
    PB_J_BOOL,
    PB_J_INT,
    PB_J_REAL,
    PB_J_STRING,
    PB_J_ARRAY,
    PB_J_OBJECT,
};

struct pb_json {
    enum pb_json_type type;
    union {
        bool b;
        int64_t i;
        double d;
    } v;
    const char *s;  /* STRING: terminated, UTF-8; INT, REAL: the text as written */
    size_t len;     /* length of s */
    const char *key; /* name of a member of an object */
    struct pb_json *items; /* ARRAY, OBJECT: n of them */
    size_t n;
};

int pb_json_parse(struct pb_arena *a, const char *text, size_t len, struct pb_json *ret,
                  struct pb_err *err);
/* Member of an object; NULL when it is none or has none. */
const struct pb_json *pb_json_get(const struct pb_json *object, const char *key);
/* Its value when it is of that kind, else the default. */
const char *pb_json_str(const struct pb_json *object, const char *key, const char *default_value);
int64_t pb_json_whole(const struct pb_json *object, const char *key, int64_t default_value);
double pb_json_number(const struct pb_json *object, const char *key, double default_value);
bool pb_json_flag(const struct pb_json *object, const char *key, bool default_value);

#endif
