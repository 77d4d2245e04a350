/*
 * compare.h - one recording beside another, or beside the middle of several.
 *
 * Owns: nothing; what is compared becomes part of the first recording.
 * Threads: one.
 * Fails: never.
 * Not here: where recordings come from, how a difference is drawn.
 *
 * Stacks are the same when their frames are, threads when their names are. What stands for the
 * time before is scaled to the time for which there are samples of what it is put beside.
 */
#ifndef PB_RECORDING_COMPARE_H
#define PB_RECORDING_COMPARE_H

#include "recording/recording.h"

/* Puts `before` beside r. */
void pb_compare(struct pb_recording *r, const struct pb_recording *before, const char *title);
/* The same with the median of n: of each stack, thread and state the middle of their times. */
void pb_compare_median(struct pb_recording *r, const struct pb_recording *others, size_t n,
                       const char *title);

/* Processes that are frames at the root; in the order of their nodes. */
size_t pb_compare_roots(const struct pb_recording *r, struct pb_arena *a, uint32_t **ret);
/* What lies below one of these as a recording of its own, without that frame. */
void pb_compare_split(const struct pb_recording *r, uint32_t root, struct pb_recording *ret);

#endif
