/*
 * Tidying: a look into new files, many small parts into one, and what is too old goes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "node/archive/footer.h"
#include "node/archive/internal.h"

enum {
    MERGED_ROWS = 1 << 20,   /* a merged part is at most this large */
    HURRIED_ROWS = 320 << 10, /* the same while rows come fast: sealing needs the engine, too */
    MERGED_BYTES = 128 << 20,
    MERGED_FILES = 256,
    MERGE_AT = 8,            /* parts that make a merge worth it while more are to come */
    FEW_ROWS = 20000,        /* rewriting these costs nothing */
    FOOTERS_AT_ONCE = 256,
    REMOVED_AT_ONCE = 512,
};

static const uint64_t SECOND = 1000000000;
static const uint64_t RESCAN = UINT64_C(600) * 1000000000;
static const int64_t QUIET = INT64_C(600) * 1000000000; /* no new part for so long: finished */
static const int64_t DAY = INT64_C(86400000000000);

static void add_found(struct pb_finds *f, const struct pb_series *s, const struct pb_part *p)
{
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 64;
        f->found = pb_alloc_resize(f->found, f->cap * sizeof(*f->found));
    }
    f->found[f->n++] = (struct pb_found){.key = s->id, .part = *p};
}

/* Index lock held: the series and the place of a part that was copied out of the list. */
static struct pb_series *find_again(struct pb_archive *a, const struct pb_found *f, long *at)
{
    struct pb_series *s = pb_lake_find(&a->lake, &f->key);

    *at = s ? pb_series_part(s, f->part.first, f->part.last) : -1;
    return *at >= 0 ? s : NULL;
}

/* A file that is no Parquet would spoil every query of its table. */
static void rename_broken(struct pb_archive *a, const struct pb_found *f, struct pb_err *err)
{
    char path[PB_LAKE_PATH_MAX], aside[PB_LAKE_PATH_MAX + 8];
    struct pb_series *s;
    long at;

    pb_err_prefix(err, "history");
    pb_archive_reason(a, err);
    if (pb_part_path(&a->lake, &f->key, &f->part, path) < 0)
        return;
    snprintf(aside, sizeof aside, "%s.broken", path);
    pb_gate_change(&a->gate);
    if (!a->background || rename(path, aside) == 0 || errno == ENOENT) {
        pthread_mutex_lock(&a->index);
        s = find_again(a, f, &at);
        if (s)
            pb_lake_drop(&a->lake, s, (size_t)at);
        pthread_mutex_unlock(&a->index);
    }
    pb_gate_close(&a->gate);
}

static void read_footer(struct pb_archive *a, const struct pb_found *f)
{
    char path[PB_LAKE_PATH_MAX];
    struct pb_footer footer;
    struct pb_err err = {0};
    struct pb_series *s;
    long at;

    if (pb_part_path(&a->lake, &f->key, &f->part, path) < 0)
        return;
    if (pb_footer_read(&footer, path, &err) < 0) {
        rename_broken(a, f, &err);
        return;
    }
    pthread_mutex_lock(&a->index);
    s = find_again(a, f, &at);
    if (s) {
        s->parts[at].rows = footer.rows;
        s->parts[at].columns = footer.columns;
    }
    pthread_mutex_unlock(&a->index);
}

/* Looks into files that nobody has looked into; true when some are left. */
static bool read_footers(struct pb_archive *a)
{
    struct pb_finds finds = {0};
    bool more;

    pthread_mutex_lock(&a->index);
    for (size_t i = 0; i < a->lake.nseries && finds.n < FOOTERS_AT_ONCE; i++)
        for (size_t k = 0; k < a->lake.series[i]->nparts && finds.n < FOOTERS_AT_ONCE; k++)
            if (!a->lake.series[i]->parts[k].columns)
                add_found(&finds, a->lake.series[i], &a->lake.series[i]->parts[k]);
    pthread_mutex_unlock(&a->index);
    more = finds.n == FOOTERS_AT_ONCE;
    for (size_t i = 0; i < finds.n && !pb_archive_stopping(a); i++)
        read_footer(a, &finds.found[i]);
    pb_finds_finish(&finds);
    return more;
}

/* Neighbours in one series. */
struct run {
    size_t from, n;
    uint64_t rows, bytes, largest;
    int64_t last_ns;
};

static bool is_worth_it(const struct run *r, int32_t day, int64_t wall_ns)
{
    bool finished = day < wall_ns / DAY || wall_ns - r->last_ns > QUIET;

    if (r->n < 2)
        return false;
    if (finished || r->n == MERGED_FILES)
        return true;
    return r->n >= MERGE_AT && (r->rows <= FEW_ROWS || r->largest <= r->rows / 2);
}

/* The longest run of parts from `from` on that fit into one. */
static struct run run_from(const struct pb_series *s, size_t from, uint64_t limit)
{
    struct run r = {.from = from};

    for (size_t i = from; i < s->nparts && r.n < MERGED_FILES; i++) {
        const struct pb_part *p = &s->parts[i];

        if (p->day != s->parts[from].day || !p->columns || p->rows > limit - r.rows ||
            p->bytes > MERGED_BYTES - r.bytes)
            break;
        r.n++;
        r.rows += p->rows;
        r.bytes += p->bytes;
        if (p->rows > r.largest)
            r.largest = p->rows;
        if (p->last_ns > r.last_ns)
            r.last_ns = p->last_ns;
    }
    return r;
}

/* Index lock held: copies the parts to merge. */
static bool find_merge(struct pb_archive *a, struct pb_finds *ret)
{
    int64_t wall_ns = pb_clock_wall_ns();
    bool hot = pb_clock_ns() - atomic_load(&a->hot_ns) < 3 * SECOND;
    uint64_t limit = hot ? HURRIED_ROWS : MERGED_ROWS;

    for (size_t i = 0; i < a->lake.nseries; i++) {
        const struct pb_series *s = a->lake.series[i];

        for (size_t from = 0; s->ours && from < s->nparts; from++) {
            struct run r = run_from(s, from, limit);

            if (!is_worth_it(&r, s->parts[from].day, wall_ns))
                continue;
            for (size_t k = 0; k < r.n; k++)
                add_found(ret, s, &s->parts[from + k]);
            return true;
        }
    }
    return false;
}

/* Nobody runs a query: the merged part comes, its sources go. */
static int swap(struct pb_archive *a, const struct pb_finds *f, struct pb_part *merged,
                const char *temp, struct pb_err *err)
{
    const struct pb_series_id *id = &f->found[0].key;
    char path[PB_LAKE_PATH_MAX];
    struct pb_series *s;
    int rc = -1;

    pb_part_path(&a->lake, id, merged, path);
    for (int tries = 0; !pb_gate_quiet(&a->gate, 500); tries++)
        if (tries == 60 || pb_archive_stopping(a))
            return pb_err_set(err, PB_TIMEOUT, "queries run all the time");
    if (rename(temp, path) < 0) {
        pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
        goto close_gate;
    }
    rc = 0;
    pthread_mutex_lock(&a->index);
    s = pb_lake_series(&a->lake, id);
    for (size_t i = 0; i < f->n; i++) {
        long at = pb_series_part(s, f->found[i].part.first, f->found[i].part.last);

        if (at >= 0)
            pb_lake_drop(&a->lake, s, (size_t)at);
    }
    merged->seen = a->lake.scan + 1;
    pb_lake_add(&a->lake, s, merged);
    pthread_mutex_unlock(&a->index);
    pb_archive_sync_folder(path);
    for (size_t i = 0; i < f->n; i++)
        pb_lake_remove(&a->lake, id, &f->found[i].part);
close_gate:
    pb_gate_close(&a->gate);
    return rc;
}

static int merge_parts(struct pb_archive *a, const struct pb_finds *f, struct pb_err *err)
{
    const struct pb_series_id *id = &f->found[0].key;
    struct pb_part merged = f->found[0].part;
    char temp[PB_LAKE_PATH_MAX], (*paths)[PB_LAKE_PATH_MAX];
    const char *list[MERGED_FILES];
    uint64_t rows = 0;
    int rc = -1;

    merged.last = f->found[f->n - 1].part.last;
    paths = pb_alloc_resize(NULL, f->n * sizeof(*paths));
    for (size_t i = 0; i < f->n; i++) {
        const struct pb_part *p = &f->found[i].part;

        pb_part_path(&a->lake, id, p, paths[i]);
        list[i] = paths[i];
        rows += p->rows;
        if (p->last_ns > merged.last_ns)
            merged.last_ns = p->last_ns;
    }
    pb_archive_temp(a, id, &merged, temp);
    if (a->writer.merge(a->writer.arg, list, f->n, temp, err) < 0 ||
        pb_archive_finish_file(temp, &merged, true, err) < 0)
        goto remove_temp;
    if (merged.rows != rows)
        pb_err_set(err, PB_FAIL, "%s: %llu rows instead of %llu", temp,
                   (unsigned long long)merged.rows, (unsigned long long)rows);
    else
        rc = swap(a, f, &merged, temp, err);
remove_temp:
    if (rc < 0)
        unlink(temp);
    free(paths);
    return rc;
}

/* One merge; true when it did one. */
static bool merge_some(struct pb_archive *a)
{
    struct pb_finds finds = {0};
    struct pb_err err = {0};
    bool found, done = false;

    if (pb_clock_ns() < a->merge_ns)
        return false;
    pthread_mutex_lock(&a->index);
    found = find_merge(a, &finds);
    pthread_mutex_unlock(&a->index);
    if (found) {
        done = merge_parts(a, &finds, &err) == 0;
        if (!done) {
            /* The rows are safe where they are. */
            a->merge_ns = pb_clock_ns() + 60 * SECOND;
            pb_err_prefix(&err, "history: merging");
            pb_archive_reason(a, &err);
        }
    }
    pb_finds_finish(&finds);
    return done;
}

static int compare_age(const void *x, const void *y)
{
    const struct pb_part *a = &((const struct pb_found *)x)->part;
    const struct pb_part *b = &((const struct pb_found *)y)->part;

    if (a->day != b->day)
        return (a->day > b->day) - (a->day < b->day);
    return (a->last_ns > b->last_ns) - (a->last_ns < b->last_ns);
}

/* Index lock held: parts that are too old, or the oldest of too many. */
static void find_old(struct pb_archive *a, struct pb_finds *ret)
{
    int64_t oldest = pb_clock_wall_ns() / DAY - atomic_load(&a->keep_days);
    uint64_t limit = (uint64_t)atomic_load(&a->keep_bytes), bytes = a->lake.bytes;
    bool full = bytes > limit;
    size_t n = 0;

    for (size_t i = 0; i < a->lake.nseries; i++) {
        const struct pb_series *s = a->lake.series[i];

        for (size_t k = 0; k < s->nparts; k++)
            if (full || s->parts[k].day < oldest)
                add_found(ret, s, &s->parts[k]);
    }
    if (!full)
        return;
    qsort(ret->found, ret->n, sizeof *ret->found, compare_age);
    while (n < ret->n && (bytes > limit || ret->found[n].part.day < oldest))
        bytes -= ret->found[n++].part.bytes;
    ret->n = n;
}

/* Removes what retention says; true when there is more. */
static bool remove_old(struct pb_archive *a)
{
    struct pb_finds finds = {0};
    bool more = false;
    size_t n;

    pthread_mutex_lock(&a->index);
    find_old(a, &finds);
    pthread_mutex_unlock(&a->index);
    n = finds.n < REMOVED_AT_ONCE ? finds.n : REMOVED_AT_ONCE;
    if (n && pb_gate_quiet(&a->gate, 500)) {
        for (size_t i = 0; i < n; i++) {
            struct pb_series *s;
            long at;

            pthread_mutex_lock(&a->index);
            s = find_again(a, &finds.found[i], &at);
            if (s)
                pb_lake_drop(&a->lake, s, (size_t)at);
            pthread_mutex_unlock(&a->index);
            pb_lake_remove(&a->lake, &finds.found[i].key, &finds.found[i].part);
        }
        pb_gate_close(&a->gate);
        more = n < finds.n;
    }
    pb_finds_finish(&finds);
    return more;
}

bool pb_archive_tidy(struct pb_archive *a)
{
    struct pb_err err = {0};
    bool more = read_footers(a);

    if (!a->background || pb_archive_stopping(a))
        return more;
    if (pb_clock_ns() - a->scanned_ns > RESCAN)
        pb_archive_rescan(a, &err);
    more |= remove_old(a);
    if (!pb_archive_stopping(a))
        more |= merge_some(a);
    return more;
}
