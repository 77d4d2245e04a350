/* What is in a lake, for queries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/text/buf.h"
#include "node/archive/fleet.h"
#include "node/archive/footer.h"

struct scan {
    const char *root;
    const int64_t *hours;
    struct pb_arena *arena;
    struct pb_archive_table table;
    struct pb_buf globs;
    uint64_t columns;
};

/* "2025-08-01", "07" as hours since 1970; -1: they are not that. */
static int64_t hour_of(const char *date, const char *hour)
{
    struct tm tm = {0};
    const char *end = strptime(date, "%Y-%m-%d", &tm);

    if (!end || *end || strlen(hour) != 2 || strspn(hour, "0123456789") != 2)
        return -1;
    return (int64_t)timegm(&tm) / 3600 + atoi(hour);
}

/* Letters with a meaning in a pattern stand in brackets. */
static void put_path(struct pb_buf *b, const char *path)
{
    for (; *path; path++) {
        if (strchr("*?[", *path))
            pb_buf_printf(b, "[%c]", *path);
        else
            pb_buf_putc(b, *path);
    }
}

static int add_file(struct scan *s, const char *path, struct pb_err *err)
{
    struct pb_archive_table *t = &s->table;
    struct pb_footer footer;
    struct stat st;

    if (stat(path, &st) < 0)
        return 0; /* whoever removes old days is at it */
    if (pb_footer_read(&footer, path, err) < 0)
        return -1;
    t->files++;
    t->bytes += (uint64_t)st.st_size;
    t->rows += footer.rows;
    t->mixed |= s->columns && s->columns != footer.columns;
    t->changes |= footer.columns;
    s->columns = footer.columns;
    return 0;
}

static int add_hour(struct scan *s, const char *date, const char *hour, struct pb_err *err)
{
    int64_t at = hour_of(date, hour);
    const char *folder = pb_arena_printf(s->arena, "%s/%s/date=%s/hour=%s", s->root,
                                         s->table.name, date, hour);
    const char *const *files;
    size_t n;

    if (at < 0 || (s->hours[1] && (at < s->hours[0] || at >= s->hours[1])))
        return 0;
    n = pb_fleet_list(folder, "part-", s->arena, &files);
    for (size_t i = 0; i < n; i++)
        if (add_file(s, pb_arena_printf(s->arena, "%s/part-%s", folder, files[i]), err) < 0)
            return -1;
    if (n && s->hours[1]) {
        put_path(&s->globs, folder);
        pb_buf_puts(&s->globs, "/part-*.parquet\n");
    }
    return 0;
}

static int scan_table(struct scan *s, const char *name, struct pb_err *err)
{
    const char *const *dates, *const *hours;
    const char *folder = pb_arena_printf(s->arena, "%s/%s", s->root, name);
    size_t ndates = pb_fleet_list(folder, "date=", s->arena, &dates), nhours;

    s->table = (struct pb_archive_table){.name = name, .fleet = true};
    s->columns = 0;
    pb_buf_clear(&s->globs);
    if (!s->hours[1]) {
        put_path(&s->globs, folder);
        pb_buf_puts(&s->globs, "/date=*/hour=*/part-*.parquet");
    }
    for (size_t d = 0; d < ndates; d++) {
        nhours = pb_fleet_list(pb_arena_printf(s->arena, "%s/date=%s", folder, dates[d]), "hour=",
                               s->arena, &hours);
        for (size_t h = 0; h < nhours; h++)
            if (add_hour(s, dates[d], hours[h], err) < 0)
                return -1;
    }
    s->table.glob = pb_arena_strdup(s->arena, s->globs.data ? s->globs.data : "");
    s->table.changes = (s->table.changes | 1) * 2 + s->table.mixed;
    return 0;
}

int pb_fleet_scan(const char *root, const int64_t hours[2], struct pb_arena *a,
                  struct pb_archive_table **ret, size_t *ret_n, struct pb_err *err)
{
    struct scan s = {.root = root, .hours = hours, .arena = a};
    const char *const *names;
    size_t n = pb_fleet_list(root, "", a, &names);
    int rc = 0;

    *ret = PB_NEW_N(a, struct pb_archive_table, n + 1);
    *ret_n = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!pb_lake_is_table(names[i]))
            continue;
        rc = scan_table(&s, names[i], err);
        if (rc == 0 && s.table.files)
            (*ret)[(*ret_n)++] = s.table;
    }
    pb_buf_finish(&s.globs);
    return rc;
}

bool pb_fleet_is_lake(const char *path)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *const *tables, *const *dates, *const *hours;
    bool found = access(pb_arena_printf(&a, "%s/.waiting", path), X_OK) == 0;
    size_t n = found ? 0 : pb_fleet_list(path, "", &a, &tables);

    for (size_t i = 0; i < n && !found; i++) {
        const char *folder = pb_arena_printf(&a, "%s/%s", path, tables[i]);

        if (!pb_lake_is_table(tables[i]) || !pb_fleet_list(folder, "date=", &a, &dates))
            continue;
        found = pb_fleet_list(pb_arena_printf(&a, "%s/date=%s", folder, dates[0]), "hour=", &a,
                              &hours) > 0;
    }
    pb_arena_finish(&a);
    return found;
}
