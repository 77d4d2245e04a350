/*
 * directories.h - the folders of users in which the folders of processes are.
 *
 * Owns: the list of these folders and of the names in them.
 * Threads: one at a time (discover.h holds its lock).
 * Fails: when a folder that the user named is none. A folder that is not safe to enter (another's,
 * open to others, a link) is left out.
 * Not here: what a process's folder holds.
 *
 * Those of this user (base/home.h), as root every user's; of processes with another root folder or
 * mount namespace the same below /proc/PID/root.
 */
#ifndef PB_NODE_DISCOVER_DIRECTORIES_H
#define PB_NODE_DISCOVER_DIRECTORIES_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct pb_folder;
struct pb_store_dirs;

/* store_dir: only this one, or NULL. */
int pb_store_dirs_create(struct pb_store_dirs **ret, const char *store_dir, struct pb_err *err);
void pb_store_dirs_destroy(struct pb_store_dirs *p);
/* Looks again, at other mount namespaces only now and then unless `everywhere`. True: changed. */
bool pb_store_dirs_refresh(struct pb_store_dirs *p, bool everywhere);
typedef void pb_store_dir_fn(const char *path, uid_t owner, bool copied, void *arg);
/* Every folder there is, as of the last look. */
void pb_store_dirs_each(struct pb_store_dirs *p, pb_store_dir_fn *each, void *arg);
/* Is a folder that is no longer listed worth keeping for its open rings? */
bool pb_store_dirs_keeps(const struct pb_store_dirs *p, const struct pb_folder *f);

#endif
