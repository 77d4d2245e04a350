/*
 * footer.h - the little that the archive has to know of a Parquet file itself.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: with a reason when the file is cut off or its footer makes no sense.
 * Not here: reading and writing rows (sql/).
 *
 * The engine tells the same, but takes two milliseconds a file where this takes 0.03: a node that
 * finds the ten thousand files of a week would look at them for twenty seconds before its queries
 * knew that all have the same columns.
 */
#ifndef PB_NODE_ARCHIVE_FOOTER_H
#define PB_NODE_ARCHIVE_FOOTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pb_footer {
    uint64_t rows;
    uint64_t columns; /* hash of the schema, never 0: equal when names and types are */
};

/* Reads the end of a file. */
int pb_footer_read(struct pb_footer *ret, const char *path, struct pb_err *err);
/* The footer's bytes, or the beginning of them. -1 when they make no sense. */
int pb_footer_parse(struct pb_footer *ret, const unsigned char *bytes, size_t len);

#endif
