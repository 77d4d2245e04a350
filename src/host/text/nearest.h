/*
 * nearest.h - which word was meant.
 *
 * Owns: nothing. Threads: any. Pure functions over strings.
 * Fails: never; a word longer than any name is far from all of them.
 */
#ifndef PB_HOST_TEXT_NEAREST_H
#define PB_HOST_TEXT_NEAREST_H

#include <stddef.h>

/* Edits (insert, delete, change, swap of neighbours) between two words. */
size_t pb_nearest_distance(const char *a, const char *b);

/* The best candidate so far; start with PB_NEAREST_INIT and offer each name. */
struct pb_nearest {
    const char *word;
    const char *best;
    size_t distance;
};

#define PB_NEAREST_INIT(word) {(word), NULL, (size_t)-1}

void pb_nearest_offer(struct pb_nearest *n, const char *name);
/* The winner when it is near enough to be meant, else NULL. */
const char *pb_nearest_result(const struct pb_nearest *n);
/* The setting that a key, with or without "probing.", may mean; NULL when there is none. */
const char *pb_nearest_setting(const char *key);

#endif
