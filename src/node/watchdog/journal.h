/*
 * journal.h - what the server is at, in memory that outlives it, so that whoever starts it again
 * knows what ended it.
 *
 * Owns: shared memory, mapped by the supervisor and inherited by each server.
 * Threads: begin, end and refused from any thread of the server; blame only while none runs.
 * Fails: never; where there is no room something goes unnoted.
 * Not here: starting the server again (supervise.c); the list of rings that are not read again,
 * which outlives the supervisor, too (quarantine.h).
 *
 * A query or a ring that the server was at when it died is a suspect. The one that the dying thread
 * was at, or the only one there is, is found guilty; of several those that are suspects for the
 * second time. A guilty query is refused from then on, a guilty ring is set aside.
 */
#ifndef PB_NODE_JOURNAL_H
#define PB_NODE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "host/process/stall.h"

struct pb_journal;

/* A ring's file, wherever its name is moved to. */
struct pb_ring_identity {
    uint64_t device, inode;
    uint64_t created_ns; /* when it was made, by its head; 0: it was not opened yet */
};

/* NULL when there is no memory. Every other call takes NULL for "nobody keeps one". */
struct pb_journal *pb_journal_create(void);
void pb_journal_destroy(struct pb_journal *j);

/* This thread is at it now. Returns what end() takes. Pairs may lie inside of each other. */
int pb_journal_begin_query(struct pb_journal *j, const char *text);
int pb_journal_begin_ring(struct pb_journal *j, const struct pb_ring_identity *ring);
void pb_journal_end(struct pb_journal *j, int entry);
/* Did this query end a server? buf: "ended the server at 14:02:11 (Segmentation fault)". */
bool pb_journal_refused(struct pb_journal *j, const char *query, char *buf, size_t cap);

/* The server ends because of this one, by its own will: with the exit code below. */
void pb_journal_blame_entry(struct pb_journal *j, int entry);
enum { PB_JOURNAL_EXIT_STUCK = 75 };
/*
 * From a signal handler of the server: the dying thread is this one. ring: what it reads, where no
 * entry says so; or NULL.
 */
void pb_journal_dying(struct pb_journal *j, const struct pb_ring_identity *ring);
/*
 * By the supervisor, when the server has died: judges what it was at, and hands over each ring that
 * is guilty. Returns how many suspects.
 */
int pb_journal_blame(struct pb_journal *j, time_t when, const char *why,
                     void (*guilty)(const struct pb_ring_identity *ring, void *arg), void *arg);

/* Where the server notes whose memory it waits for. */
struct pb_stalls *pb_journal_stalls(struct pb_journal *j);
/* As blame, but what the server was at had no part in it. */
void pb_journal_restarted(struct pb_journal *j, time_t when, const char *why);

/* Restarts so far; of the last one the time and the reason. */
unsigned pb_journal_restarts(const struct pb_journal *j, time_t *ret_when, char *why, size_t cap);

/* The server answers; it ends in good order. Cleared before one is started. */
void pb_journal_set_ready(struct pb_journal *j, bool ready);
void pb_journal_set_ended(struct pb_journal *j);
bool pb_journal_is_ready(const struct pb_journal *j);
bool pb_journal_is_ended(const struct pb_journal *j);

#endif
