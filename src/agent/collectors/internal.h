/*
 * internal.h - what the files of the framework share.
 *
 * Owns: nothing.
 * Threads: as said; "lock" is that of struct pb_collect.
 * Fails: never; what cannot be written is noted or left.
 * Not here: what collectors use (collect.h).
 */
#ifndef PB_AGENT_COLLECTORS_INTERNAL_H
#define PB_AGENT_COLLECTORS_INTERNAL_H

#include "agent/collectors/collect.h"
#include "agent/core/self.h"

/* Whether a collector's hooks are to be put in or taken out. */
bool pb_collect_must_change(const struct pb_collector *c, const struct pb_collector_run *run);

/* rings.c */

/* A descriptor of the folder, or -1. */
int pb_collect_folder(const struct pb_collect *c);
int64_t pb_collect_ring_bytes(int folder);
/* Is there a ring with PB_RING_KEEP and rows in the folder? */
bool pb_collect_is_kept(int folder);
/* Retires all rings and closes those that were retired long ago. Called with lock held. */
void pb_collect_retire_rings(struct pb_self *self);
/* Rings of an earlier start or image keep at most half of the budget. Called with lock held. */
void pb_collect_make_room(struct pb_self *self);

/* meta.c, status.c: called with lock held; written under another name and renamed. */
void pb_collect_write_meta(struct pb_self *self);
void pb_collect_write_status(struct pb_self *self, const char *state);
int pb_collect_write(int folder, const char *name, const char *text, size_t len);
/* The status file's time says when the process was last seen alive. */
void pb_collect_heartbeat(struct pb_self *self);
/* Ranks by the environment that the process started with; with the GIL: by that of now. */
void pb_collect_read_ranks(struct pb_self *self, bool now);

#endif
