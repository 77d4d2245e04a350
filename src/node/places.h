/*
 * places.h - the folders of users in which the folders of processes are.
 *
 * Owns: the list of places and of what they hold.
 * Threads: one at a time (discover.h holds its lock).
 * Fails: when a folder that the user named is none. A place that is not safe to enter (another's,
 * open to others, a link) is left out.
 * Not here: what a process's folder holds.
 *
 * A place is a folder of a user (base/home.h); as root every user's; of processes with another root
 * folder or mount namespace the same below /proc/PID/root.
 */
#ifndef PB_NODE_PLACES_H
#define PB_NODE_PLACES_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct pb_folder;
struct pb_places;

/* store_dir: only this one, or NULL. */
int pb_places_create(struct pb_places **ret, const char *store_dir, struct pb_err *err);
void pb_places_destroy(struct pb_places *p);
/* Looks again, at other mount namespaces only now and then unless `everywhere`. True: changed. */
bool pb_places_look(struct pb_places *p, bool everywhere);
typedef void pb_places_each_fn(const char *path, uid_t owner, bool copied, void *arg);
/* Every folder there is, as of the last look. */
void pb_places_each(struct pb_places *p, pb_places_each_fn *each, void *arg);
/* Has this process another root folder or other mounts than we have? */
bool pb_places_elsewhere(pid_t pid);
/* Is a folder that is no longer listed worth keeping for its open rings? */
bool pb_places_keeps(const struct pb_places *p, const struct pb_folder *f);

#endif
