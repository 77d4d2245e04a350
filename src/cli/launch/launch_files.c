#include "cli/launch/launch_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/embed.h"
#include "base/hash.h"
#include "host/os/own_path.h"
#include "inject/inject.h"

/* X(symbol, file below python/, file in the folder) */
#define FILES(X)                                                                                   \
    X(init, "probing/__init__.py", "probing/__init__.py")                                          \
    X(agent, "probing/_agent.py", "probing/_agent.py")                                             \
    X(api, "probing/_api.py", "probing/_api.py")                                                   \
    X(config, "probing/_config.py", "probing/_config.py")                                          \
    X(hook, "probing/_hook.py", "probing/_hook.py")                                                \
    X(port, "probing/_port.py", "probing/_port.py")                                                \
    X(spark, "probing/spark.py", "probing/spark.py")                                               \
    X(tables, "probing/_tables.py", "probing/_tables.py")                                          \
    X(wire, "probing/_wire.py", "probing/_wire.py")                                                \
    X(wrap, "probing/_wrap.py", "probing/_wrap.py")                                                \
    X(site, "launch/sitecustomize.py", "sitecustomize.py")

#define X(symbol, from, to) PB_EMBED(pb_launch_##symbol, "python/" from)
FILES(X)
#undef X

static const unsigned char version[] = "__version__ = \"" PB_VERSION "\"\n";

struct file {
    const char *path;
    const unsigned char *start, *end;
};

static const struct file files[] = {
#define BYTES(symbol) (const unsigned char *)symbol
#define X(symbol, from, to) {to, BYTES(pb_launch_##symbol), BYTES(pb_launch_##symbol##_end)},
    FILES(X)
#undef X
        {"probing/_version.py", version, version + sizeof version - 1},
    {"probing/libprobing.so", pb_payload_start, pb_payload_end},
};

/* Two builds that differ get two folders. */
static uint64_t digest(void)
{
    uint64_t h = PB_HASH_SEED;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        h = pb_hash_bytes(h, files[i].start, (size_t)(files[i].end - files[i].start));
    return h;
}

/* A folder of ours that only we can write to; made when it is not there. Negative errno. */
static int open_folder(int parent, const char *name)
{
    struct stat st;
    int fd, rc = 0;

    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        rc = -errno;
    else if (st.st_uid != geteuid() || (st.st_mode & 022))
        rc = -EPERM;
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

static bool is_complete(int folder, const struct file *f)
{
    struct stat st;

    return fstatat(folder, f->path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_size == f->end - f->start;
}

/* Under another name first: nobody ever sees half a file. */
static int write_file(int folder, const struct file *f)
{
    const unsigned char *p = f->start;
    char part[64];
    int fd, rc = 0;

    snprintf(part, sizeof part, "%s.%d", f->path, (int)getpid());
    unlinkat(folder, part, 0);
    fd = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    while (rc == 0 && p < f->end) {
        ssize_t n = write(fd, p, (size_t)(f->end - p));

        if (n > 0)
            p += n;
        else if (errno != EINTR)
            rc = n < 0 ? -errno : -EIO;
    }
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && renameat(folder, part, folder, f->path) < 0)
        rc = -errno;
    if (rc < 0)
        unlinkat(folder, part, 0);
    return rc;
}

static int fill(int folder)
{
    int rc = 0, package = open_folder(folder, "probing");

    if (package < 0)
        return package;
    close(package);
    for (size_t i = 0; rc == 0 && i < sizeof files / sizeof *files; i++)
        if (!is_complete(folder, &files[i]))
            rc = write_file(folder, &files[i]);
    return rc;
}

/* base is made when its own parent is there. */
static int unpack_below(const char *base, const char *name)
{
    struct statvfs vfs;
    int top, folder, rc;

    top = open_folder(AT_FDCWD, base);
    if (top < 0)
        return top;
    if (fstatvfs(top, &vfs) == 0 && (vfs.f_flag & ST_NOEXEC)) {
        rc = -EACCES;
        goto close_top;
    }
    folder = open_folder(top, name);
    rc = folder;
    if (folder < 0)
        goto close_top;
    rc = fill(folder);
    close(folder);
close_top:
    close(top);
    return rc;
}

/* Where a cache may be, best first; NULL ends it. A colon would split PYTHONPATH. */
static const char *candidate(struct pb_arena *a, int index)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    unsigned uid = (unsigned)geteuid();

    switch (index) {
    case 0:
        return cache && *cache == '/' ? pb_arena_printf(a, "%s/probing", cache) : "";
    case 1:
        if (!home || *home != '/' || !pb_own_path(home))
            return "";
        mkdir(pb_arena_printf(a, "%s/.cache", home), 0700);
        return pb_arena_printf(a, "%s/.cache/probing", home);
    case 2:
        return pb_arena_printf(a, "/var/tmp/probing-cache-%u", uid);
    case 3:
        return pb_arena_printf(a, "/tmp/probing-cache-%u", uid);
    default:
        return NULL;
    }
}

int pb_launch_files_unpack(struct pb_arena *a, const char **ret, struct pb_err *err)
{
    const char *name = pb_arena_printf(a, "%s-%016llx", PB_VERSION, (unsigned long long)digest());
    const char *base, *first = NULL;
    int cause = 0;

    for (int i = 0; (base = candidate(a, i)); i++) {
        int rc;

        if (!*base || strchr(base, ':') || !pb_own_path(base))
            continue;
        rc = unpack_below(base, name);
        if (rc == 0) {
            *ret = pb_arena_printf(a, "%s/%s", base, name);
            return 0;
        }
        if (!first) {
            first = base;
            cause = -rc;
        }
    }
    return pb_err_set(err, PB_FAIL, "no folder for the Python package: %s: %s",
                      first ? first : "cache", strerror(cause ? cause : ENOENT));
}
