/*
 * mount_view.h - what a process sees of the file system: its root folder and mount namespace.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: false for a process that has ended or may not be looked at.
 * Not here: folders below such a root (directories.h).
 */
#ifndef PB_NODE_DISCOVER_MOUNT_VIEW_H
#define PB_NODE_DISCOVER_MOUNT_VIEW_H

#include <stdbool.h>
#include <sys/types.h>

struct pb_mount_view {
    dev_t root_dev;
    ino_t root_ino, mounts;
    uid_t uid; /* owner of the process */
};

/* pid: digits, or "self". */
bool pb_mount_view_read(const char *pid, struct pb_mount_view *ret);
/* The same root folder and mounts? Users do not count. */
bool pb_mount_view_same(const struct pb_mount_view *x, const struct pb_mount_view *y);
/* Has this process another root folder or other mounts than we have? */
bool pb_mount_view_is_other(pid_t pid);

#endif
