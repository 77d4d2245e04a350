/*
 * value_text.h - values of an answer as people read them.
 *
 * Owns: nothing; texts are in the caller's arena.
 * Threads: any.
 * Fails: never.
 * Not here: tables (result.h); JSON, CSV and Parquet, which have all digits (the node).
 */
#ifndef PB_DISPLAY_VALUE_TEXT_H
#define PB_DISPLAY_VALUE_TEXT_H

#include "host/text/arena.h"
#include "host/text/json.h"

/*
 * Four digits are what people compare. What is before the point stays whole: a number of seconds
 * since 1970 is of no use otherwise.
 */
const char *pb_show_real(struct pb_arena *a, double d);
/* "2026-01-02T03:04:05.120000Z" as people write it: a blank, no zeros at the end. */
const char *pb_show_time(struct pb_arena *a, const char *iso);
/* A list or an object, on one line. */
const char *pb_show_nested(struct pb_arena *a, const struct pb_json *v);

#endif
