#include "node/archive/fleet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"

void pb_fleet_init(struct pb_fleet *f, const char *root, const char *host, const char *data_dir)
{
    char name[PB_LAKE_HOST_MAX];
    size_t n;

    *f = (struct pb_fleet){0};
    snprintf(f->root, sizeof f->root, "%s", root ? root : "");
    for (n = strlen(f->root); n > 1 && f->root[n - 1] == '/'; n--)
        f->root[n - 1] = '\0';
    pb_lake_host(name, host);
    snprintf(f->tag, sizeof f->tag, "%s-%08x", name,
             (unsigned)pb_hash_text(PB_HASH_SEED, data_dir ? data_dir : ""));
}

void pb_fleet_id(const struct pb_fleet *f, char *buf)
{
    snprintf(buf, PB_FLEET_ID_MAX, "%lld-%s", (long long)pb_clock_wall_ns(), f->tag);
}

bool pb_fleet_is_ours(const struct pb_fleet *f, const char *id)
{
    const char *dash = strchr(id, '-');

    return dash && strcmp(dash + 1, f->tag) == 0;
}

void pb_fleet_waiting(const struct pb_fleet *f, const char *table, const char *kind,
                      const char *id, char buf[PB_LAKE_PATH_MAX])
{
    if (kind)
        snprintf(buf, PB_LAKE_PATH_MAX, "%s/.waiting/%s/%s-%s", f->root, table, kind, id);
    else
        snprintf(buf, PB_LAKE_PATH_MAX, "%s/.waiting/%s", f->root, table);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    remove(path);
    return 0;
}

void pb_fleet_remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int pb_fleet_sync(const char *path, struct pb_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

    rc = fd < 0 || fsync(fd) < 0;
    /* Some file systems cannot sync a folder, and need not. */
    if (rc && errno != EINVAL)
        rc = pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    else
        rc = 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

int pb_fleet_rename(const char *from, const char *to, struct pb_err *err)
{
    int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);

    if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
        /* A second name fails when it is taken, also where file systems know no better rename. */
        rc = link(from, to);
        if (rc == 0)
            unlink(from);
        else if (errno != EEXIST)
            rc = access(to, F_OK) == 0 ? (errno = EEXIST, -1) : rename(from, to);
    }
    if (rc < 0) {
        int why = errno;

        pb_err_set(err, PB_FAIL, "%s: %s", to, strerror(why));
        errno = why;
    }
    return rc;
}

static int compare_names(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

size_t pb_fleet_list(const char *path, const char *prefix, struct pb_arena *a,
                     const char *const **ret)
{
    size_t n = 0, cap = 0, len = strlen(prefix);
    const char **names = NULL;
    DIR *dir = opendir(path);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        if (strncmp(e->d_name, prefix, len) != 0 || (!len && e->d_name[0] == '.'))
            continue;
        if (n == cap) {
            names = pb_arena_grow(a, names, cap * sizeof *names, (2 * cap + 32) * sizeof *names);
            cap = 2 * cap + 32;
        }
        names[n++] = pb_arena_strdup(a, e->d_name + len);
    }
    if (dir)
        closedir(dir);
    if (n)
        qsort(names, n, sizeof *names, compare_names);
    *ret = names;
    return n;
}

/* Is it in one of the folders of this kind? */
static bool is_in(const struct pb_fleet *f, const char *table, const char *kind, const char *batch)
{
    struct pb_arena a = PB_ARENA_INIT;
    char path[PB_LAKE_PATH_MAX];
    const char *const *names;
    bool found = false;
    size_t n;

    pb_fleet_waiting(f, table, NULL, NULL, path);
    n = pb_fleet_list(path, pb_arena_printf(&a, "%s-", kind), &a, &names);
    for (size_t i = 0; i < n && !found; i++) {
        pb_fleet_waiting(f, table, kind, names[i], path);
        found = access(pb_arena_printf(&a, "%s/batch-%s", path, batch), F_OK) == 0;
    }
    pb_arena_finish(&a);
    return found;
}

int pb_fleet_has(const struct pb_fleet *f, const struct pb_archive_writer *w, const char *table,
                 const char *batch, bool *ret, struct pb_err *err)
{
    static const int64_t all[2] = {0, 0};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_archive_table *tables;
    char path[PB_LAKE_PATH_MAX];
    size_t n;
    int rc = 0;

    pb_fleet_waiting(f, table, "batch", batch, path);
    *ret = access(path, F_OK) == 0 || is_in(f, table, "open", batch) ||
           is_in(f, table, "claim", batch);
    if (!*ret)
        rc = pb_fleet_scan(f->root, all, &a, &tables, &n, err);
    for (size_t i = 0; !*ret && rc == 0 && i < n; i++)
        if (strcmp(tables[i].name, table) == 0)
            rc = w->has_batch(w->arg, tables[i].glob, batch, ret, err);
    pb_arena_finish(&a);
    return rc;
}
