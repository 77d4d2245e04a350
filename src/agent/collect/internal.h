/*
 * internal.h - what the files of the framework share.
 *
 * Owns: nothing.
 * Threads: as said; "under lock" is collect.lock.
 * Fails: never; what cannot be written is noted or left.
 * Not here: what collectors use (collect.h).
 */
#ifndef PB_AGENT_COLLECT_INTERNAL_H
#define PB_AGENT_COLLECT_INTERNAL_H

#include "agent/self.h"

/* rings.c */

/* A descriptor of the folder, or -1. */
int pb_collect_folder(const struct pb_collect *c);
int64_t pb_collect_ring_bytes(int folder);
/* Is there a ring with PB_RING_KEEP and rows in the folder? */
bool pb_collect_is_kept(int folder);
/* Under lock: all rings turn into nothing; those of the last time are unmapped. */
void pb_collect_retire(struct pb_self *self);
/* Under lock: rings of an earlier start or image keep at most half of the budget. */
void pb_collect_make_room(struct pb_self *self);

/* meta.c, status.c: under lock; written under another name and renamed. */
void pb_collect_write_meta(struct pb_self *self);
void pb_collect_write_status(struct pb_self *self, const char *state);
int pb_collect_write(int folder, const char *name, const char *text, size_t len);
/* The status file's time says when the process was last seen alive. */
void pb_collect_beat(struct pb_self *self);
/* Ranks by the environment that the process started with; with the GIL: by that of now. */
void pb_collect_read_ranks(struct pb_self *self, bool now);

#endif
