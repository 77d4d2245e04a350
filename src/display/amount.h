/*
 * amount.h - counts and sizes as people read them.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: any.
 * Fails: never.
 */
#ifndef PB_DISPLAY_AMOUNT_H
#define PB_DISPLAY_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "host/text/arena.h"

/* "1,234,567"; with sign "+1,234" and "0". */
const char *pb_amount_count(struct pb_arena *a, int64_t n, bool sign);
/* "812 B", "4.06 MB": three digits and a unit of 1,024. */
const char *pb_amount_bytes(struct pb_arena *a, int64_t n, bool sign);

#endif
