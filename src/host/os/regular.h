/*
 * regular.h - opening files whose names somebody else has chosen.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: -1 and errno; EINVAL where there is something that is no regular file.
 * Not here: whether the caller should read what is in it.
 */
#ifndef PB_HOST_OS_REGULAR_H
#define PB_HOST_OS_REGULAR_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Opens a regular file for reading and nothing else: opening a device has side effects, opening a
 * pipe wakes or waits for its other end. What was looked at is what is opened, whoever moves names
 * meanwhile. `may` (NULL: always) decides by what is there, before it is opened.
 */
int pb_open_regular(const char *path, bool (*may)(const struct stat *st, const void *arg),
                    const void *arg, struct stat *ret);

/* For `may`: the user at `arg` (uid_t) may read it, as far as owner and mode tell. */
bool pb_regular_is_readable_by(const struct stat *st, const void *uid);

#endif
