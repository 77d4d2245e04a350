/*
 * own_path.h - folders that nobody but root and we could swap for others.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: what cannot be looked at is not ours.
 * Not here: folders in shared memory (base/home.h).
 */
#ifndef PB_HOST_OS_OWN_PATH_H
#define PB_HOST_OS_OWN_PATH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * For root: does every folder on the way to where this is or would be belong to root, and may
 * others change none of them? In one of another user (sudo may keep HOME) that user decides what
 * root reads there as its own, and where it writes. For everybody else always true.
 */
bool pb_own_path(const char *path);
/* $HOME if it is absolute and an own path, else what the system knows as home; NULL: neither. */
const char *pb_own_home(char *buf, size_t cap);
/*
 * This machine's name as a part of a file's name: what is about one machine is told from that of
 * others where they share a home folder.
 */
#define PB_OWN_HOST_MAX 65
void pb_own_host(char buf[PB_OWN_HOST_MAX]);

#endif
