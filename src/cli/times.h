/*
 * times.h - times as people write them on a command line.
 *
 * Owns: nothing; texts are in the context's arena.
 * Threads: one.
 * Fails: PB_USAGE with what would have been right.
 * Not here: clocks.
 *
 *     2025-08-01 12:00     a day and a time, with a zone or in that of the node
 *     14:05, 14:05:30      today, or yesterday when that is still to come
 *     90s, 10min, 2h, 3d   so long ago
 */
#ifndef PB_CLI_TIMES_H
#define PB_CLI_TIMES_H

#include "cli/cmd.h"

/* "90s", "10 min", "2h", "3d": seconds, or -1 when it is none of these. */
double pb_times_length(const char *text);
/* A time as SQL, or NULL with the error set; what: the option that it was given for. */
const char *pb_times_sql(struct pb_ctx *ctx, const char *what, const char *text);
/* --since and --until of a lake into ctx->hours. */
int pb_times_hours(struct pb_ctx *ctx);

#endif
