/*
 * ranges.h - sets of ranks as people write them: "0-511,513-1023".
 *
 * Owns: a set owns its list.
 * Threads: one for each set.
 * Fails: text that is no such set, or too large a one, is refused.
 * Not here: which process a rank is.
 */
#ifndef PB_CLUSTER_RANGES_H
#define PB_CLUSTER_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/buf.h"

enum { PB_RANGES_MAX = 65536, PB_RANGES_VALUE_MAX = 100000000 };

/* All ranks that there are, as a text for pb_ranges_parse. */
#define PB_RANGES_ALL "0-100000000"

struct pb_range {
    uint32_t first, last; /* both in it */
};

/* Sorted, without overlaps or neighbours. Starts as all zero. */
struct pb_ranges {
    struct pb_range *v;
    size_t n, cap;
};

void pb_ranges_finish(struct pb_ranges *r);
/* False when there would be too many ranges or the number is too large. */
bool pb_ranges_add(struct pb_ranges *r, uint32_t first, uint32_t last);
bool pb_ranges_has(const struct pb_ranges *r, uint32_t value);
/* Do the two have a number in common? The first such one is put into *ret_value, unless NULL. */
bool pb_ranges_meet(const struct pb_ranges *a, const struct pb_ranges *b, uint32_t *ret_value);
/* Adds to *ret what is in a and not in b. */
void pb_ranges_without(const struct pb_ranges *a, const struct pb_ranges *b, struct pb_ranges *ret);
uint64_t pb_ranges_count(const struct pb_ranges *r);

/* "3", "0-7", "0-7,9,12-15"; adds them. */
int pb_ranges_parse(struct pb_ranges *r, const char *text, struct pb_err *err);
void pb_ranges_text(const struct pb_ranges *r, struct pb_buf *b);

#endif
