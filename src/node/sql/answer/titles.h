/*
 * titles.h - what a column of an answer is called: as the user wrote it.
 *
 * Owns: nothing; texts are in the caller's arena.
 * Threads: any.
 * Fails: never; what cannot be told from the words keeps the engine's name.
 * Not here: names that the user gave (AS), which the engine knows.
 *
 * The engine calls count(*) count_star() and hour(timestamp) "hour"("timestamp").
 */
#ifndef PB_NODE_SQL_ANSWER_TITLES_H
#define PB_NODE_SQL_ANSWER_TITLES_H

#include <stddef.h>

#include "host/text/arena.h"

/* n texts in the arena, NULL where the engine's name stands; or NULL when that is all of them. */
const char **pb_titles_find(struct pb_arena *a, const char *sql, size_t len, size_t n);

#endif
