/*
 * spark.h - a row of numbers as a line of small bars, and amounts of memory as people say them.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never.
 * Not here: where the numbers come from.
 */
#ifndef PB_DISPLAY_SPARK_H
#define PB_DISPLAY_SPARK_H

#include <stddef.h>

#include "host/text/buf.h"

/*
 * From the least to the greatest of them; a NaN is a blank. Numbers that hardly differ are all
 * the same bar, so that noise does not look like a mountain.
 */
void pb_spark(struct pb_buf *out, const double *v, size_t n);
/* "812 MB", "2.41 GB", "3.4 MB"; a NaN is "". Not longer than 15 bytes. */
void pb_megabytes(char buf[16], double mb);

#endif
