#define _GNU_SOURCE /* fallocate */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    GENERATIONS = 8, /* rings of one table in one folder */
    NAME_TRIES = 16,
    RESERVE_STEP = 1 << 20,
    RESERVE_TRIES = 100,
};

static char *put_string(char *to, const char *s)
{
    size_t len = strlen(s);

    memcpy(to, s, len);
    return to + len;
}

static char *put_number(char *to, uint32_t n)
{
    char digits[10];
    int len = 0;

    do
        digits[len++] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    while (len > 0)
        *to++ = digits[--len];
    return to;
}

/* ".<name>.<generation>.ring", with the dot while it is made; without is one further. */
static void file_name(char buf[PB_RING_FILE_NAME], const char *name, uint32_t generation)
{
    char *p = put_string(put_string(buf, "."), name);

    *put_string(put_number(put_string(p, "."), generation), ".ring") = '\0';
}

/* The generation that a file of this table has, or -1. */
static int64_t generation_of(const char *file, const char *name)
{
    size_t len = strlen(name);
    uint64_t n = 0;
    const char *p;

    file += file[0] == '.';
    if (strncmp(file, name, len) != 0 || file[len] != '.')
        return -1;
    for (p = file + len + 1; *p >= '0' && *p <= '9' && n < UINT32_MAX; p++)
        n = n * 10 + (uint64_t)(*p - '0');
    return p > file + len + 1 && strcmp(p, ".ring") == 0 && n < UINT32_MAX ? (int64_t)n : -1;
}

struct generations {
    size_t count;
    int64_t oldest, newest; /* -1: none */
};

/* As the kernel gives it. */
struct dirent_raw {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

/* readdir() would allocate. */
static struct generations list_generations(int dirfd, const char *name)
{
    struct generations g = {0, -1, -1};
    _Alignas(struct dirent_raw) char buf[2048];
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got;

    if (fd < 0)
        return g;
    while ((got = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0)
        for (long at = 0; at < got;) {
            const struct dirent_raw *e = (const void *)(buf + at);
            int64_t n = generation_of(e->name, name);

            at += e->reclen;
            if (n < 0)
                continue;
            g.newest = n > g.newest ? n : g.newest;
            if (e->name[0] == '.')
                continue;
            g.oldest = g.oldest < 0 || n < g.oldest ? n : g.oldest;
            g.count++;
        }
    close(fd);
    return g;
}

int pb_ring_file_open(int dirfd, const char *name, char file[PB_RING_FILE_NAME],
                      uint32_t *ret_generation)
{
    struct generations g = list_generations(dirfd, name);

    for (int i = 0; g.count >= GENERATIONS && i < NAME_TRIES;
         i++, g = list_generations(dirfd, name)) {
        file_name(file, name, (uint32_t)g.oldest);
        unlinkat(dirfd, file + 1, 0);
    }
    for (int i = 0; i < NAME_TRIES && g.newest < UINT32_MAX - 1; i++) {
        int fd;

        *ret_generation = (uint32_t)++g.newest;
        file_name(file, name, *ret_generation);
        fd = openat(dirfd, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
    return -EEXIST;
}

/* A file larger than the limit of the process would bring a deadly SIGXFSZ. */
static bool is_too_large(uint64_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           size > limit.rlim_cur;
}

/* For file systems without fallocate. */
static int write_zeros(int fd, uint64_t from, uint64_t to)
{
    static const char zeros[4096];

    while (from < to) {
        ssize_t n =
            pwrite(fd, zeros, to - from < sizeof zeros ? to - from : sizeof zeros, (off_t)from);

        if (n <= 0 && (n == 0 || errno != EINTR))
            return n == 0 ? -ENOSPC : -errno;
        from += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

/* In steps, since a signal makes the kernel undo the whole step. */
int pb_ring_file_reserve(int fd, uint64_t size)
{
    int rc = 0, tries = 0;

    if (is_too_large(size))
        return -EFBIG;
    for (uint64_t at = 0, n; at < size && rc == 0; at += n) {
        n = size - at < RESERVE_STEP ? size - at : RESERVE_STEP;
        do
            rc = fallocate(fd, 0, (off_t)at, (off_t)n) < 0 ? -errno : 0;
        while (rc == -EINTR && ++tries < RESERVE_TRIES);
        if (rc == -EOPNOTSUPP)
            return write_zeros(fd, at, size);
    }
    return rc;
}
