/*
 * An archive without an engine: its files are a list of row numbers with a real Parquet footer
 * behind it, so that a test can say of every row where it is.
 */
#ifndef ARCHIVE_FAKE_H
#define ARCHIVE_FAKE_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pb_test.h"

#include "base/clock.h"
#include "host/text/buf.h"
#include "node/archive/internal.h"
#include "store/writer.h"

static const struct pb_column_spec fake_columns[] = {
    {"timestamp", PB_TIME, "", "when"},
    {"number", PB_INT, "", "which"},
};

struct fake {
    char dir[64];
    int fd; /* of the folder with the rings */
    struct pb_ring *ring;
    struct pb_store_ring seen;
    struct pb_store_ring *rings[1];
    struct pb_store store;
    char meta[160];
    struct pb_store *list[1];
    struct pb_stores stores;
    struct pb_archive *archive;
    int fail; /* of the next writes so many fail */
    int writes, merges;
};

/* A footer with a schema of one element named as given, and a number of rows. */
static inline size_t fake_footer(unsigned char *b, const char *schema, uint64_t rows)
{
    size_t n = 0, len = strlen(schema);
    uint64_t zigzag = rows << 1;

    b[n++] = 0x15; /* field 1: version */
    b[n++] = 0x02;
    b[n++] = 0x19; /* field 2: a list */
    b[n++] = 0x1c; /* of one struct */
    b[n++] = 0x48; /* its field 4: a text */
    b[n++] = (unsigned char)len;
    memcpy(b + n, schema, len);
    n += len;
    b[n++] = 0;
    b[n++] = 0x16; /* field 3: rows */
    for (; zigzag > 0x7f; zigzag >>= 7)
        b[n++] = (unsigned char)(zigzag | 0x80);
    b[n++] = (unsigned char)zigzag;
    b[n++] = 0;
    return n;
}

static inline void fake_write(const char *path, const char *schema, const uint64_t *rows, size_t n)
{
    unsigned char footer[64];
    size_t len = fake_footer(footer, schema, n);
    uint32_t size = (uint32_t)len;
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fwrite("PAR1", 4, 1, f);
    if (n)
        fwrite(rows, sizeof *rows, n, f);
    fwrite(footer, len, 1, f);
    fwrite(&size, 4, 1, f);
    fwrite("PAR1", 4, 1, f);
    fclose(f);
}

static inline size_t fake_read(const char *path, uint64_t *rows, size_t cap)
{
    FILE *f = fopen(path, "r");
    struct stat st;
    size_t n;

    assert_non_null(f);
    fstat(fileno(f), &st);
    fseek(f, 4, SEEK_SET);
    n = fread(rows, sizeof *rows, cap, f);
    fclose(f);
    /* What follows the rows is shorter than 64 bytes; rows are small numbers. */
    for (size_t i = 0; i < n; i++)
        if (rows[i] > 1 << 24)
            return i;
    return n;
}

static inline int fake_write_ring(void *arg, struct pb_store_ring *ring, uint64_t first,
                                  uint64_t last, const char *path, uint64_t *ret_rows,
                                  struct pb_err *err)
{
    struct fake *f = arg;
    uint64_t *rows = malloc((last - first + 1) * sizeof *rows);
    size_t n;

    f->writes++;
    if (f->fail) {
        f->fail--;
        free(rows);
        return pb_err_set(err, PB_FAIL, "No space left on device");
    }
    n = pb_reader_copy(&ring->reader, first, (size_t)(last - first + 1), NULL, 0, NULL, rows,
                       NULL);
    fake_write(path, "plain", rows, n);
    *ret_rows = n;
    free(rows);
    return 0;
}

static inline int fake_merge(void *arg, const char *const *paths, size_t n, const char *path,
                             struct pb_err *err)
{
    struct fake *f = arg;
    uint64_t *rows = malloc(sizeof *rows << 20);
    size_t all = 0;

    (void)err;
    f->merges++;
    for (size_t i = 0; i < n; i++)
        all += fake_read(paths[i], rows + all, (1 << 20) - all);
    fake_write(path, "plain", rows, all);
    free(rows);
    return 0;
}

static inline void fake_open(struct fake *f)
{
    struct pb_archive_opts o = {
        .writer = {.write = fake_write_ring, .merge = fake_merge, .arg = f},
        .host = "here",
        .background = true,
    };
    struct pb_err err = {0};
    char data[96];

    snprintf(data, sizeof data, "%s/data", f->dir);
    o.data_dir = data;
    if (pb_archive_open(&f->archive, &o, &err) < 0)
        fail_msg("%s", err.msg);
    pb_archive_adopt(f->archive, &f->seen);
}

/* The node is gone and another comes. */
static inline void fake_reopen(struct fake *f)
{
    pb_archive_close(f->archive);
    fake_open(f);
}

static inline void fake_begin(struct fake *f, uint64_t rows)
{
    struct pb_ring_spec spec = {.name = "test.rows", .doc = "", .columns = fake_columns,
                                .ncolumns = 2, .rows = rows};
    struct pb_err err = {0};

    memset(f, 0, sizeof *f);
    strcpy(f->dir, "/tmp/pb-archive-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(pb_ring_create(&f->ring, f->fd, &spec, NULL, &err), 0);
    f->seen.store = &f->store;
    assert_int_equal(pb_reader_open(&f->seen.reader, f->fd, "test.rows.0.ring", &err), 0);
    strcpy(f->store.host, "here");
    strcpy(f->store.process.id, "12-34");
    f->store.meta = f->meta;
    f->store.process.live = true;
    f->rings[0] = &f->seen;
    f->store.rings = f->rings;
    f->store.nrings = 1;
    f->list[0] = &f->store;
    f->stores.stores = f->list;
    f->stores.nstores = 1;
    fake_open(f);
}

static inline int fake_unlink(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    (void)st;
    (void)kind;
    (void)w;
    return remove(path);
}

static inline void fake_end(struct fake *f)
{
    pb_archive_close(f->archive);
    pb_reader_close(&f->seen.reader);
    pb_ring_close(f->ring);
    close(f->fd);
    nftw(f->dir, fake_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void fake_append_at(struct fake *f, int64_t ns, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        union pb_cell cells[2] = {{.i = ns}, {.i = (int64_t)pb_ring_rows(f->ring)}};

        pb_ring_append(f->ring, cells);
    }
}

static inline void fake_append(struct fake *f, uint64_t n)
{
    fake_append_at(f, pb_clock_wall_ns(), n);
}

static inline void fake_look(struct fake *f)
{
    pb_archive_look(f->archive, &f->stores, false);
}

/* How often each row stands in the files that a query would read, and how many files these are. */
static struct {
    unsigned char times[1 << 20];
    size_t files, hidden;
    char last[256];
} lake;

static inline int fake_count(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    static uint64_t rows[1 << 20];
    const char *name = path + w->base;

    (void)st;
    if (kind != FTW_F || strncmp(name, ".lock", 5) == 0)
        return 0;
    if (strncmp(name, "part-", 5) != 0 || strcmp(name + strlen(name) - 8, ".parquet") != 0) {
        lake.hidden++;
        return 0;
    }
    lake.files++;
    snprintf(lake.last, sizeof lake.last, "%s", path);
    for (size_t i = fake_read(path, rows, 1 << 20); i-- > 0;)
        lake.times[rows[i]]++;
    return 0;
}

static inline void fake_walk(struct fake *f)
{
    char path[96];

    memset(&lake, 0, sizeof lake);
    snprintf(path, sizeof path, "%s/data/lake", f->dir);
    nftw(path, fake_count, 16, FTW_PHYS);
}

/* Each row in [first, last] is in exactly one file, and no row beyond. */
static inline void assert_sealed(struct fake *f, uint64_t first, uint64_t last)
{
    fake_walk(f);
    for (uint64_t i = 0; i < sizeof lake.times; i++)
        if (lake.times[i] != (i >= first && i <= last))
            fail_msg("row %llu is in %d files", (unsigned long long)i, lake.times[i]);
}

static inline struct pb_archive_status fake_status(struct fake *f)
{
    struct pb_archive_status s;

    pb_archive_status(f->archive, &s);
    return s;
}

#endif
