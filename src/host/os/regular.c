#include "host/os/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int reopen(int path_fd)
{
    char self[40];

    snprintf(self, sizeof self, "/proc/self/fd/%d", path_fd);
    return open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int pb_open_regular(const char *path, bool (*may)(const struct stat *st, const void *arg),
                    const void *arg, struct stat *ret)
{
    int at = open(path, O_PATH | O_CLOEXEC), fd = -1, e;

    if (at < 0)
        return -1;
    if (fstat(at, ret) == 0) {
        errno = EINVAL;
        if (S_ISREG(ret->st_mode)) {
            errno = EACCES;
            if (!may || may(ret, arg))
                fd = reopen(at);
        }
    }
    e = errno;
    close(at);
    errno = e;
    return fd;
}

bool pb_regular_is_readable_by(const struct stat *st, const void *uid)
{
    return st->st_uid == *(const uid_t *)uid || (st->st_mode & S_IROTH);
}
