/* A node's rows go to the lake: step 1 of fleet.h, for each table. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/archive/fleet.h"
#include "node/archive/internal.h"
#include "node/archive/published.h"

enum {
    PIECES_MAX = 256,       /* files that one batch is made of */
    ROWS_MAX = 4 << 20,     /* rows in one batch, but for the last file's */
    BATCHES_PER_ROUND = 64, /* batches of a table */
};

/* One table, as it is handed over. */
struct publishing {
    struct pb_archive *a;
    const char *table;
    char state[PB_LAKE_PATH_MAX];
    struct pb_published done;
    struct pb_arena arena;
    struct pb_batch_piece *pieces;
    size_t npieces;
};

/* Index lock held: adds what is new in a series; false when the batch is full. */
static bool add_series(struct publishing *p, const struct pb_series *s, uint64_t *rows)
{
    struct pb_published_series *done = pb_published_find(&p->done, s->id.process, s->id.ring);

    done->end = done->next;
    for (size_t i = 0; i < s->nparts; i++) {
        const struct pb_part *part = &s->parts[i];
        char path[PB_LAKE_PATH_MAX];

        if (part->last < done->next)
            continue;
        if (p->npieces == PIECES_MAX || *rows >= ROWS_MAX)
            return false;
        if (pb_part_path(&p->a->lake, &s->id, part, path) < 0)
            continue;
        p->pieces[p->npieces++] = (struct pb_batch_piece){
            .path = pb_arena_strdup(&p->arena, path),
            .process = s->id.process,
            .ring = s->id.ring,
            .first = part->first > done->next ? part->first : done->next,
            .last = part->last,
            .last_ns = part->last_ns,
        };
        *rows += part->rows;
        done->end = part->last + 1;
    }
    return true;
}

/* Series whose files are all gone need no note: their next rows have higher numbers. */
static void forget_gone(struct publishing *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->done.n; i++) {
        struct pb_series_id id;
        const struct pb_series *s;

        pb_series_name(&id, p->table, p->a->host, p->done.v[i].process, p->done.v[i].ring);
        s = pb_lake_find(&p->a->lake, &id);
        if (s && s->nparts)
            p->done.v[n++] = p->done.v[i];
    }
    p->done.n = n;
}

/* What is to be handed over. */
static void collect(struct publishing *p)
{
    struct pb_archive *a = p->a;
    uint64_t rows = 0;

    p->pieces = PB_NEW_N(&p->arena, struct pb_batch_piece, PIECES_MAX);
    p->npieces = 0;
    pthread_mutex_lock(&a->index);
    forget_gone(p);
    for (size_t i = 0; i < a->lake.nseries; i++) {
        const struct pb_series *s = a->lake.series[i];

        if (strcmp(s->id.table, p->table) == 0 && strcmp(s->id.host, a->host) == 0 &&
            !add_series(p, s, &rows))
            break;
    }
    pthread_mutex_unlock(&a->index);
}

static int sync_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    struct pb_err ignored = {0};

    (void)st;
    (void)kind;
    (void)ftw;
    return pb_fleet_sync(path, &ignored);
}

/* Writes the batch aside, then gives it its name. */
static int hand_over(struct publishing *p, struct pb_err *err)
{
    const struct pb_fleet *f = &p->a->fleet;
    char temp[PB_LAKE_PATH_MAX], path[PB_LAKE_PATH_MAX];
    struct pb_batch batch = {.id = p->done.batch,
                             .host = p->a->host,
                             .pieces = p->pieces,
                             .npieces = p->npieces};
    int rc;

    pb_fleet_waiting(f, p->table, NULL, NULL, path);
    if (pb_lake_make(path, 0777, err) < 0)
        return -1;
    pb_fleet_waiting(f, p->table, ".new", p->done.batch, temp);
    pb_fleet_waiting(f, p->table, "batch", p->done.batch, path);
    rc = p->a->writer.publish(p->a->writer.arg, &batch, temp, err);
    if (rc == 0 && nftw(temp, sync_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        rc = pb_err_set(err, PB_FAIL, "%s: could not be synced", temp);
    if (rc == 0 && rename(temp, path) < 0)
        rc = pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    if (rc < 0) {
        pb_fleet_remove_tree(temp);
        return -1;
    }
    *strrchr(path, '/') = '\0';
    return pb_fleet_sync(path, err);
}

/* A batch of which nobody knows whether it is there; and what was left unfinished. */
static int recover(struct publishing *p, struct pb_err *err)
{
    const struct pb_fleet *f = &p->a->fleet;
    char path[PB_LAKE_PATH_MAX];
    bool there = false;

    if (!p->done.batch[0])
        return 0;
    if (pb_fleet_has(f, &p->a->writer, p->table, p->done.batch, &there, err) < 0)
        return -1;
    pb_fleet_waiting(f, p->table, ".new", p->done.batch, path);
    pb_fleet_remove_tree(path);
    pb_published_settle(&p->done, there);
    return pb_published_save(&p->done, p->state, f->root, err);
}

/* One batch: 1 when there was one, 0 when there is nothing new. */
static int publish_batch(struct publishing *p, struct pb_err *err)
{
    const char *root = p->a->fleet.root;
    int rc = 0;

    /* As a query does it: while files are read, none goes. */
    pb_archive_begin(p->a);
    collect(p);
    pb_archive_bound(p->a);
    if (p->npieces) {
        pb_fleet_id(&p->a->fleet, p->done.batch);
        rc = pb_published_save(&p->done, p->state, root, err);
        if (rc == 0)
            rc = hand_over(p, err);
    }
    pb_archive_end(p->a);
    if (rc < 0 || !p->npieces)
        return rc;
    pb_published_settle(&p->done, true);
    rc = pb_published_save(&p->done, p->state, root, err);
    return rc < 0 ? -1 : 1;
}

static int publish_table(struct pb_archive *a, const char *table, struct pb_err *err)
{
    struct publishing p = {.a = a, .table = table};
    char data[PB_LAKE_PATH_MAX];
    int rc;

    snprintf(data, sizeof data, "%.*s", (int)(strlen(a->lake.root) - strlen("/lake")),
             a->lake.root);
    pb_published_path(p.state, data, a->host, table);
    pb_published_load(&p.done, p.state, a->fleet.root);
    rc = recover(&p, err);
    for (int i = 0; rc == 0 && i < BATCHES_PER_ROUND; i++) {
        rc = publish_batch(&p, err);
        if (rc <= 0)
            break;
        rc = 0;
    }
    pb_published_finish(&p.done);
    pb_arena_finish(&p.arena);
    return rc < 0 ? pb_err_prefix(err, "%s", table) : 0;
}

int pb_archive_publish(struct pb_archive *a, struct pb_err *err)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_archive_table *tables;
    size_t n = pb_archive_tables(a, &arena, &tables);
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        struct pb_err why = {0};

        if (publish_table(a, tables[i].name, &why) < 0 && rc == 0) {
            *err = why;
            rc = pb_err_prefix(err, "lake");
        }
    }
    pb_arena_finish(&arena);
    return rc;
}

bool pb_archive_publish_round(struct pb_archive *a)
{
    struct pb_err err = {0};
    int rc = pb_archive_publish(a, &err);

    if (!pb_archive_stopping(a) &&
        pb_fleet_gather(&a->fleet, &a->writer, atomic_load(&a->lake_merge_ns), &err) < 0)
        rc = pb_err_prefix(&err, "lake");
    pb_archive_lake_reason(a, rc < 0 ? &err : NULL);
    return rc == 0;
}
