/*
 * The lake on disk: walking it, making and removing its folders.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "node/archive/lake.h"

struct walk {
    struct pb_finds *finds;
    const char *tag;
    struct pb_series_id id; /* the folder being looked at */
    int32_t day;
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

static void found_file(struct walk *w, int dir, const char *name)
{
    struct pb_part part = {.day = w->day};
    struct stat st;
    uint64_t ring;

    if (w->tag && strncmp(name, ".part-", 6) == 0 && ends_with(name, w->tag)) {
        unlinkat(dir, name, 0);
        return;
    }
    if (!pb_part_parse(name, &ring, &part.first, &part.last) ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    part.bytes = (uint64_t)st.st_size;
    part.rows = part.last - part.first + 1;
    part.last_ns = pb_clock_of_timespec(&st.st_mtim);
    if (w->finds->n == w->finds->cap) {
        w->finds->cap = w->finds->cap ? 2 * w->finds->cap : 64;
        w->finds->found =
            pb_alloc_resize(w->finds->found, w->finds->cap * sizeof(*w->finds->found));
    }
    w->finds->found[w->finds->n] = (struct pb_found){.key = w->id, .part = part};
    w->finds->found[w->finds->n++].key.ring = ring;
}

static bool found_table(struct walk *w, const char *name)
{
    if (!pb_lake_is_table(name))
        return false;
    snprintf(w->id.table, sizeof w->id.table, "%s", name);
    return true;
}

static bool found_date(struct walk *w, const char *name)
{
    struct tm tm = {0};
    const char *end;
    char again[16];

    if (strncmp(name, "date=", 5) != 0 || !isdigit((unsigned char)name[5]))
        return false;
    end = strptime(name + 5, "%Y-%m-%d", &tm);
    if (!end || *end)
        return false;
    w->day = (int32_t)(timegm(&tm) / 86400);
    pb_lake_date(again, w->day);
    return strcmp(again, name + 5) == 0;
}

static bool found_host(struct walk *w, const char *name)
{
    if (strncmp(name, "host=", 5) != 0)
        return false;
    pb_lake_host(w->id.host, name + 5);
    return strcmp(w->id.host, name + 5) == 0;
}

static bool found_process(struct walk *w, const char *name)
{
    const char *id = name + 8;

    if (strncmp(name, "process=", 8) != 0 || strlen(id) >= sizeof w->id.process || !*id ||
        strspn(id, "0123456789-") != strlen(id))
        return false;
    snprintf(w->id.process, sizeof w->id.process, "%s", id);
    return true;
}

/* What a folder at each depth is called; files lie in the deepest. */
static bool (*const levels[])(struct walk *w, const char *name) = {
    found_table,
    found_date,
    found_host,
    found_process,
};

enum { DEPTH = sizeof levels / sizeof levels[0] };

/* Takes the descriptor over. */
static void walk_folder(struct walk *w, int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        close(fd);
        return;
    }
    while ((e = readdir(dir))) {
        int below;

        if (depth == DEPTH) {
            found_file(w, fd, e->d_name);
            continue;
        }
        if (!levels[depth](w, e->d_name))
            continue;
        below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            walk_folder(w, below, depth + 1);
    }
    closedir(dir);
}

int pb_lake_scan(const char *root, const char *tag, struct pb_finds *ret, struct pb_err *err)
{
    struct walk w = {.finds = ret, .tag = tag};
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *ret = (struct pb_finds){0};
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return pb_err_set(err, errno == EACCES ? PB_DENIED : PB_FAIL, "%s: %s", root,
                          strerror(errno));
    walk_folder(&w, fd, 0);
    return 0;
}

void pb_lake_remove(const struct pb_lake *l, const struct pb_series_id *s, const struct pb_part *p)
{
    char path[PB_LAKE_PATH_MAX];
    size_t root = strlen(l->root);

    if (pb_part_path(l, s, p, path) < 0)
        return;
    unlink(path);
    for (;;) {
        char *slash = strrchr(path, '/');

        if (!slash || (size_t)(slash - path) <= root)
            return;
        *slash = '\0';
        if (rmdir(path) < 0)
            return;
    }
}

int pb_lake_make(const char *path, mode_t mode, struct pb_err *err)
{
    char part[PB_LAKE_PATH_MAX];

    for (size_t n = 1; n < sizeof part; n++) {
        if (path[n] != '/' && path[n])
            continue;
        memcpy(part, path, n);
        part[n] = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return pb_err_set(err, errno == EACCES || errno == EPERM ? PB_DENIED : PB_FAIL,
                              "%s: %s", part, strerror(errno));
        if (!path[n])
            return 0;
    }
    return pb_err_set(err, PB_FAIL, "%.64s…: the path is too long", path);
}
