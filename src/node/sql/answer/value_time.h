/*
 * value_time.h - dates and times of a result as text.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never.
 * Not here: which column holds one (value.h).
 */
#ifndef PB_NODE_SQL_ANSWER_VALUE_TIME_H
#define PB_NODE_SQL_ANSWER_VALUE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "host/text/buf.h"

/* Days since 1970 as a date of the Gregorian calendar, any year; the engine's infinities. */
void pb_value_date(struct pb_buf *b, int64_t days);
/* Time of day. digits: of the fraction; trailing zeros stay, so that texts sort. */
void pb_value_clock(struct pb_buf *b, int64_t units, int64_t per_second, int digits);
void pb_value_timestamp(struct pb_buf *b, int64_t v, int64_t per_second, int digits, bool zone);

#endif
