/* The lake's small files become large ones: steps 2 to 4 of fleet.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "node/archive/fleet.h"
#include "node/archive/footer.h"

enum {
    CLAIM_MAX = 4096, /* batches that one claim takes */
    CLAIM_AT = 4096,  /* batches from which on they are merged without waiting */
    GROUP_MAX = 1024, /* files that are read at once: of each its footer is kept meanwhile */
};

/* A file of the lake becomes no larger, where that is to be seen from those that it is made of. */
#define PART_BYTES (256ull << 20)

struct gathering {
    const struct pb_fleet *fleet;
    const struct pb_archive_writer *writer;
    const char *table;
    int64_t wait_ns;
    struct pb_arena arena;
};

/* A file of a claim. */
struct piece {
    const char *hour; /* "date=…/hour=…" */
    const char *path;
    uint64_t bytes;
};

static int compare_pieces(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    int d = strcmp(a->hour, b->hour);

    return d ? d : strcmp(a->path, b->path);
}

struct pieces {
    struct piece *v;
    size_t n, cap;
};

static void add_piece(struct gathering *g, struct pieces *p, const char *hour, const char *path)
{
    struct stat st;

    if (p->n == p->cap) {
        p->v = pb_arena_grow(&g->arena, p->v, p->cap * sizeof *p->v,
                             (2 * p->cap + 64) * sizeof *p->v);
        p->cap = 2 * p->cap + 64;
    }
    p->v[p->n++] = (struct piece){hour, path, stat(path, &st) == 0 ? (uint64_t)st.st_size : 0};
}

static void list_batch(struct gathering *g, struct pieces *p, const char *batch)
{
    const char *const *dates, *const *hours, *const *files;
    size_t ndates = pb_fleet_list(batch, "date=", &g->arena, &dates);

    for (size_t d = 0; d < ndates; d++) {
        const char *date = pb_arena_printf(&g->arena, "%s/date=%s", batch, dates[d]);
        size_t nhours = pb_fleet_list(date, "hour=", &g->arena, &hours);

        for (size_t h = 0; h < nhours; h++) {
            const char *name = pb_arena_printf(&g->arena, "date=%s/hour=%s", dates[d], hours[h]);
            const char *folder = pb_arena_printf(&g->arena, "%s/%s", batch, name);
            size_t n = pb_fleet_list(folder, "rows-", &g->arena, &files);

            for (size_t i = 0; i < n; i++)
                add_piece(g, p, name,
                          pb_arena_printf(&g->arena, "%s/rows-%s", folder, files[i]));
        }
    }
}

/* Rows of n files together. */
static int count_rows(const char *const *paths, size_t n, uint64_t *ret, struct pb_err *err)
{
    struct pb_footer footer;

    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        if (pb_footer_read(&footer, paths[i], err) < 0)
            return -1;
        *ret += footer.rows;
    }
    return 0;
}

/* Many files are merged to a few first, beside the one that becomes of these. */
static int merge_files(struct gathering *g, const char *const *paths, size_t n, const char *temp,
                       struct pb_err *err)
{
    const struct pb_archive_writer *w = g->writer;
    size_t groups = (n + GROUP_MAX - 1) / GROUP_MAX, made = 0;
    const char **between;
    int rc = 0;

    if (groups < 2)
        return w->merge(w->arg, paths, n, temp, err);
    between = PB_NEW_N(&g->arena, const char *, groups);
    for (; rc == 0 && made < groups; made++) {
        size_t from = made * GROUP_MAX, rest = n - from;

        between[made] = pb_arena_printf(&g->arena, "%s.%zu", temp, made);
        rc = w->merge(w->arg, paths + from, rest < GROUP_MAX ? rest : GROUP_MAX, between[made],
                      err);
    }
    if (rc == 0)
        rc = w->merge(w->arg, between, groups, temp, err);
    for (size_t i = 0; i < made; i++)
        unlink(between[i]);
    return rc;
}

/* Some files of a claim, of one hour, as one, which is there in the end, whoever made it. */
static int merge_part(struct gathering *g, const char *claim, const char *id,
                      const struct piece *pieces, size_t n, struct pb_err *err)
{
    const char *folder = pb_arena_printf(&g->arena, "%s/%s/%s", g->fleet->root, g->table,
                                         pieces->hour);
    const char *path = pb_arena_printf(&g->arena, "%s/part-%s.parquet", folder, id);
    const char *temp = pb_arena_printf(&g->arena, "%s/.merged-%s", claim, g->fleet->tag);
    const char **paths = PB_NEW_N(&g->arena, const char *, n);
    uint64_t rows, merged;
    int rc = -1;

    if (access(path, F_OK) == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        paths[i] = pieces[i].path;
    if (count_rows(paths, n, &rows, err) < 0 ||
        merge_files(g, paths, n, temp, err) < 0 ||
        count_rows(&temp, 1, &merged, err) < 0 || pb_fleet_sync(temp, err) < 0)
        goto remove_temp;
    if (merged != rows) {
        pb_err_set(err, PB_FAIL, "%s: %llu rows instead of %llu", path,
                   (unsigned long long)merged, (unsigned long long)rows);
        goto remove_temp;
    }
    if (pb_lake_make(folder, 0777, err) < 0)
        goto remove_temp;
    rc = pb_fleet_rename(temp, path, err);
    if (rc < 0 && errno == EEXIST)
        rc = 0;
    if (rc == 0)
        rc = pb_fleet_sync(folder, err);
remove_temp:
    unlink(temp);
    return rc;
}

/*
 * How many of n files, all of one claim and sorted, become one: those of an hour up to a size. What
 * is in a claim is cut in the same way each time. When some of its batches have gone already, all
 * parts are there, and the rest makes no more parts than these.
 */
static size_t length_of_part(const struct gathering *g, const struct piece *v, size_t n)
{
    uint64_t limit = g->writer->part_bytes ? g->writer->part_bytes : PART_BYTES;
    uint64_t bytes = v[0].bytes;
    size_t run = 1;

    while (run < n && strcmp(v[run].hour, v[0].hour) == 0 && bytes + v[run].bytes <= limit)
        bytes += v[run++].bytes;
    return run;
}

static int merge_claim(struct gathering *g, const char *id, struct pb_err *err)
{
    char claim[PB_LAKE_PATH_MAX];
    const char *const *batches;
    struct pieces p = {0};
    size_t n, run, number = 0;

    pb_fleet_waiting(g->fleet, g->table, "claim", id, claim);
    n = pb_fleet_list(claim, "batch-", &g->arena, &batches);
    for (size_t i = 0; i < n; i++)
        list_batch(g, &p, pb_arena_printf(&g->arena, "%s/batch-%s", claim, batches[i]));
    if (p.n)
        qsort(p.v, p.n, sizeof *p.v, compare_pieces);
    for (size_t i = 0; i < p.n; i += run) {
        run = length_of_part(g, &p.v[i], p.n - i);
        number = i && strcmp(p.v[i].hour, p.v[i - 1].hour) == 0 ? number + 1 : 0;
        if (merge_part(g, claim,
                       number ? pb_arena_printf(&g->arena, "%s-%zu", id, number) : id, &p.v[i],
                       run, err) < 0)
            return pb_err_prefix(err, "%s", g->table);
    }
    pb_fleet_remove_tree(claim);
    return 0;
}

/* Ours was left when this node was killed: it has one thread that does this. */
static bool is_left(const struct gathering *g, const char *kind, const char *id)
{
    char path[PB_LAKE_PATH_MAX];
    struct stat st;

    if (pb_fleet_is_ours(g->fleet, id))
        return true;
    pb_fleet_waiting(g->fleet, g->table, kind, id, path);
    return stat(path, &st) == 0 && pb_clock_wall_ns() - pb_clock_of_timespec(&st.st_mtim) >
                                       (int64_t)PB_FLEET_STALE_S * 1000000000;
}

static void seal_open(const struct gathering *g, const char *id)
{
    char open[PB_LAKE_PATH_MAX], claim[PB_LAKE_PATH_MAX];

    pb_fleet_waiting(g->fleet, g->table, "open", id, open);
    pb_fleet_waiting(g->fleet, g->table, "claim", id, claim);
    rename(open, claim);
}

/* Nodes that look at the same time would each take a part: they look one after the other. */
static int64_t patience(const struct gathering *g)
{
    uint64_t h = pb_hash_text(PB_HASH_SEED, g->fleet->tag);

    return g->wait_ns + (int64_t)(h % 101) * (g->wait_ns / 1000);
}

static bool is_due(const struct gathering *g, const char *const *batches, size_t n)
{
    /* Sorted by name, and that begins with a time of equal length. */
    return n && (n >= CLAIM_AT ||
                 pb_clock_wall_ns() - (int64_t)strtoll(batches[0], NULL, 10) >= patience(g));
}

static int claim_batches(struct gathering *g, const char *const *batches, size_t n, char *id,
                         struct pb_err *err)
{
    char from[PB_LAKE_PATH_MAX], open[PB_LAKE_PATH_MAX];

    pb_fleet_id(g->fleet, id);
    pb_fleet_waiting(g->fleet, g->table, "open", id, open);
    if (pb_lake_make(open, 0777, err) < 0)
        return -1;
    for (size_t i = 0; i < n && i < CLAIM_MAX; i++) {
        pb_fleet_waiting(g->fleet, g->table, "batch", batches[i], from);
        rename(from, pb_arena_printf(&g->arena, "%s/batch-%s", open, batches[i]));
    }
    seal_open(g, id);
    return 0;
}

static int gather_table(struct gathering *g, struct pb_err *err)
{
    const char *const *names;
    char path[PB_LAKE_PATH_MAX], id[PB_FLEET_ID_MAX];
    size_t n;
    int rc = 0;

    /* A claim that cannot be merged, because a file in it is broken, does not stop the others. */
    pb_fleet_waiting(g->fleet, g->table, NULL, NULL, path);
    n = pb_fleet_list(path, "open-", &g->arena, &names);
    for (size_t i = 0; i < n; i++)
        if (is_left(g, "open", names[i]))
            seal_open(g, names[i]);
    n = pb_fleet_list(path, "claim-", &g->arena, &names);
    for (size_t i = 0; i < n; i++)
        if (is_left(g, "claim", names[i]) && merge_claim(g, names[i], err) < 0)
            rc = -1;
    n = pb_fleet_list(path, "batch-", &g->arena, &names);
    if (is_due(g, names, n) &&
        (claim_batches(g, names, n, id, err) < 0 || merge_claim(g, id, err) < 0))
        rc = -1;
    return rc;
}

int pb_fleet_gather(const struct pb_fleet *f, const struct pb_archive_writer *w, int64_t wait_ns,
                    struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    char path[PB_LAKE_PATH_MAX];
    const char *const *tables;
    size_t n;
    int rc = 0;

    snprintf(path, sizeof path, "%s/.waiting", f->root);
    n = pb_fleet_list(path, "", &a, &tables);
    for (size_t i = 0; i < n; i++) {
        struct gathering g = {.fleet = f, .writer = w, .table = tables[i], .wait_ns = wait_ns};
        struct pb_err why = {0};

        if (pb_lake_is_table(tables[i]) && gather_table(&g, &why) < 0 && rc == 0) {
            *err = why;
            rc = -1;
        }
        pb_arena_finish(&g.arena);
    }
    pb_arena_finish(&a);
    return rc;
}
