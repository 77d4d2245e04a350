#include "node/discover/mount_view.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool pb_mount_view_read(const char *pid, struct pb_mount_view *ret)
{
    char path[64];
    struct stat st;

    memset(ret, 0, sizeof *ret);
    snprintf(path, sizeof path, "/proc/%.20s/ns/mnt", pid);
    if (stat(path, &st) < 0)
        return false;
    ret->mounts = st.st_ino;
    snprintf(path, sizeof path, "/proc/%.20s/root", pid);
    if (stat(path, &st) < 0)
        return false;
    ret->root_dev = st.st_dev;
    ret->root_ino = st.st_ino;
    snprintf(path, sizeof path, "/proc/%.20s", pid);
    if (stat(path, &st) < 0)
        return false;
    ret->uid = st.st_uid;
    return true;
}

bool pb_mount_view_same(const struct pb_mount_view *x, const struct pb_mount_view *y)
{
    return x->mounts == y->mounts && x->root_ino == y->root_ino && x->root_dev == y->root_dev;
}

bool pb_mount_view_is_other(pid_t pid)
{
    struct pb_mount_view own, its;
    char text[24];

    snprintf(text, sizeof text, "%d", (int)pid);
    return pb_mount_view_read("self", &own) && pb_mount_view_read(text, &its) &&
           !pb_mount_view_same(&own, &its);
}
