/*
 * widths.h - how wide the columns of a table are.
 *
 * Owns: nothing. Threads: any. Fails: never; a table whose narrowest form does not fit is too wide.
 */
#ifndef PB_DISPLAY_WIDTHS_H
#define PB_DISPLAY_WIDTHS_H

#include <stddef.h>

/*
 * Makes the widest of n columns narrower, none below its minimum, until a line with gaps of `gap`
 * between them fits into limit. Returns how wide a column may be at most.
 */
size_t pb_widths_fit(size_t *widths, const size_t *mins, size_t n, size_t gap, size_t limit);

#endif
