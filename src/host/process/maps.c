/* maps.c - /proc/PID/maps as data, and the files behind it. */
#include "host/process/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/os/regular.h"
#include "host/process/stall.h"

#define READ_CHUNK 65536
#define DELETED " (deleted)"

static int fail(struct pb_err *err, pid_t pid, const char *what, int e)
{
    enum pb_code code = PB_FAIL;

    if (e == ETIMEDOUT)
        return pb_err_set(err, PB_TIMEOUT, "%d: " PB_STALL_REASON, (int)pid);
    if (e == ENOENT || e == ESRCH)
        code = PB_NO_TARGET;
    else if (e == EACCES || e == EPERM)
        code = PB_DENIED;
    return pb_err_set(err, code, "%d: %s: %s", (int)pid, what, strerror(e));
}

/* Reads all of an open /proc file; its size is not known beforehand. */
static int read_all(int fd, char **ret, size_t *ret_len)
{
    size_t cap = READ_CHUNK, len = 0;
    char *text = malloc(cap), *bigger;
    int e;

    while (text) {
        ssize_t got = read(fd, text + len, cap - len - 1);

        if (got == 0) {
            text[len] = 0;
            *ret = text;
            *ret_len = len;
            return 0;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            e = errno;
            free(text);
            return e;
        }
        len += (size_t)got;
        if (cap - len > READ_CHUNK / 2)
            continue;
        bigger = realloc(text, cap * 2);
        if (!bigger)
            break;
        text = bigger;
        cap *= 2;
    }
    free(text);
    return ENOMEM;
}

/* The kernel writes a newline in a path as \012 and nothing else escaped. */
static void unescape(char *path)
{
    char *to = path;

    for (char *from = path; *from;) {
        if (strncmp(from, "\\012", 4) == 0) {
            *to++ = '\n';
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

/* A number, and the one character that must follow it (0: anything). */
static bool parse_number(char **at, int radix, char after, uint64_t *ret)
{
    char *end;

    *ret = strtoull(*at, &end, radix);
    if (end == *at || (after && *end != after))
        return false;
    *at = after ? end + 1 : end;
    return true;
}

static bool parse_permissions(char **at, struct pb_map *m)
{
    const char *p = *at;

    if (strnlen(p, 5) < 5 || p[4] != ' ')
        return false;
    m->read = p[0] == 'r';
    m->write = p[1] == 'w';
    m->exec = p[2] == 'x';
    m->shared = p[3] == 's';
    *at += 5;
    return true;
}

/* `start-end perms offset major:minor inode   path`, cut into m; the path stays in line. */
static bool parse_line(char *line, struct pb_map *m)
{
    uint64_t dev_major, dev_minor;
    size_t len;

    memset(m, 0, sizeof *m);
    if (!parse_number(&line, 16, '-', &m->start) || !parse_number(&line, 16, ' ', &m->end) ||
        !parse_permissions(&line, m) || !parse_number(&line, 16, ' ', &m->offset) ||
        !parse_number(&line, 16, ':', &dev_major) || !parse_number(&line, 16, ' ', &dev_minor) ||
        !parse_number(&line, 10, 0, &m->inode) || m->start >= m->end)
        return false;
    m->dev_major = (unsigned)dev_major;
    m->dev_minor = (unsigned)dev_minor;
    line += strspn(line, " ");
    len = strlen(line);
    if (len > strlen(DELETED) && strcmp(line + len - strlen(DELETED), DELETED) == 0) {
        line[len - strlen(DELETED)] = 0;
        m->deleted = true;
    }
    unescape(line);
    m->path = line;
    return true;
}

static size_t count_lines(const char *text, size_t len)
{
    size_t n = 0;

    for (const char *p = text; (p = memchr(p, '\n', len - (size_t)(p - text))); p++)
        n++;
    return n;
}

int pb_maps_parse(struct pb_maps *maps, char *text, size_t len, struct pb_err *err)
{
    size_t lines = count_lines(text, len) + 1;

    memset(maps, 0, sizeof *maps);
    maps->text = text;
    maps->v = calloc(lines, sizeof *maps->v);
    if (!maps->v) {
        pb_maps_finish(maps);
        return pb_err_set(err, PB_FAIL, "out of memory");
    }
    for (char *line = text; line && *line;) {
        char *next = strchr(line, '\n');

        if (next)
            *next++ = 0;
        /* Order is what pb_maps_find relies on; a line out of order is a torn read. */
        if (parse_line(line, &maps->v[maps->n]) &&
            (maps->n == 0 || maps->v[maps->n].start >= maps->v[maps->n - 1].end))
            maps->n++;
        line = next;
    }
    return 0;
}

int pb_maps_read(struct pb_maps *maps, pid_t pid, struct pb_err *err)
{
    char path[64];
    char *text = NULL;
    size_t len = 0;
    int fd, e, slot;

    memset(maps, 0, sizeof *maps);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, pid, "address space", errno);
    slot = pb_stall_begin(pid);
    e = slot == PB_STALL_REFUSED ? ETIMEDOUT : read_all(fd, &text, &len);
    pb_stall_end(slot);
    close(fd);
    if (e)
        return fail(err, pid, "address space", e);
    if (pb_maps_parse(maps, text, len, err) < 0)
        return -1;
    if (maps->n == 0) {
        pb_maps_finish(maps);
        return pb_err_set(err, PB_NO_TARGET,
                          "%d: no address space: a process that has ended, or "
                          "a kernel thread",
                          (int)pid);
    }
    return 0;
}

void pb_maps_finish(struct pb_maps *maps)
{
    if (!maps)
        return;
    free(maps->v);
    free(maps->text);
    memset(maps, 0, sizeof *maps);
}

bool pb_maps_same_code(const struct pb_maps *x, const struct pb_maps *y)
{
    size_t i = 0, j = 0;

    for (;; i++, j++) {
        while (i < x->n && !x->v[i].exec)
            i++;
        while (j < y->n && !y->v[j].exec)
            j++;
        if (i == x->n || j == y->n)
            return i == x->n && j == y->n;
        if (x->v[i].start != y->v[j].start || x->v[i].end != y->v[j].end ||
            x->v[i].inode != y->v[j].inode)
            return false;
    }
}

const struct pb_map *pb_maps_find(const struct pb_maps *maps, uint64_t addr)
{
    size_t lo = 0, hi = maps->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (addr < maps->v[mid].start)
            hi = mid;
        else if (addr >= maps->v[mid].end)
            lo = mid + 1;
        else
            return &maps->v[mid];
    }
    return NULL;
}

const struct pb_map *pb_maps_find_stack(const struct pb_maps *maps, uint64_t sp)
{
    const struct pb_map *map = pb_maps_find(maps, sp);

    for (size_t i = 0; !map && i < maps->n; i++)
        if (maps->v[i].start > sp && strcmp(maps->v[i].path, "[stack]") == 0)
            map = &maps->v[i];
    return map;
}

/*
 * The inode decides. Device numbers are not compared: on overlayfs and btrfs
 * the mapping and stat() report different ones for the same file.
 */
static int open_checked(const char *path, const struct pb_map *map)
{
    struct stat st;
    int fd = pb_open_regular(path, NULL, NULL, &st);

    if (fd >= 0 && st.st_ino != map->inode) {
        close(fd);
        errno = ESTALE;
        return -1;
    }
    return fd;
}

/* The executable, even deleted. Its name must fit too: inodes repeat between file systems. */
static int open_executable(pid_t pid, const struct pb_map *map)
{
    char link[64], target[4096];
    size_t len = strlen(map->path);
    ssize_t got;

    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    got = readlink(link, target, sizeof target);
    if (got < 0 || (size_t)got < len || memcmp(target, map->path, len) != 0)
        return -1;
    return open_checked(link, map);
}

int pb_maps_open_file(pid_t pid, const struct pb_map *map, struct pb_err *err)
{
    char path[4096 + 64], root[64] = "";
    struct stat st;
    int fd, e;

    if (map->inode == 0 || map->path[0] != '/')
        return pb_err_set(err, PB_FAIL, "%s: no file behind this memory",
                          map->path[0] ? map->path : "anonymous");
    /* Exact by construction, deleted files included, but only root may. */
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, map->start,
             map->end);
    fd = pb_open_regular(path, NULL, NULL, &st);
    if (fd >= 0)
        return fd;
    fd = open_executable(pid, map);
    if (fd >= 0)
        return fd;
    /* A deleted file's path may by now name another file, even one with the inode used again. */
    if (map->deleted)
        return pb_err_set(err, PB_FAIL, "%s: deleted, and readable only by root", map->path);
    if (pid)
        snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
    if (snprintf(path, sizeof path, "%s%s", root, map->path) >= (int)sizeof path)
        return pb_err_set(err, PB_FAIL, "%.200s…: path too long", map->path);
    fd = open_checked(path, map);
    if (fd >= 0)
        return fd;
    e = errno;
    if (e == ESTALE)
        return pb_err_set(err, PB_FAIL, "%s: replaced since it was loaded", map->path);
    return pb_err_set(err, e == EACCES || e == EPERM ? PB_DENIED : PB_FAIL, "%s: %s", map->path,
                      strerror(e));
}
