/*
 * quarantine.h - the rings that ended a server while it read them: they are not read again.
 *
 * Owns: the list in <data>/rings-set-aside, one line for each ring; deleting it forgives.
 * Threads: any, once it is open.
 * Fails: never; without the file nothing is set aside.
 * Not here: who is to blame for a death (journal.h), and what is wrong with such a ring. Reading
 * checks everything (store/reader.h); this is for what nobody thought of, so that one ring cannot
 * end server after server.
 */
#ifndef PB_NODE_QUARANTINE_H
#define PB_NODE_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>

#include "node/watchdog/journal.h"

struct pb_quarantine;

/* The list as it is now. */
struct pb_quarantine *pb_quarantine_open(const char *data_dir);
void pb_quarantine_close(struct pb_quarantine *q);
/* Is this ring on the list? why receives the reason. q may be NULL. */
bool pb_quarantine_has(const struct pb_quarantine *q, const struct pb_ring_identity *ring,
                       char *why, size_t cap);
/* Adds one, for those that open the list from now on. why: "Segmentation fault". */
void pb_quarantine_add(const char *data_dir, const struct pb_ring_identity *ring, const char *why);

#endif
