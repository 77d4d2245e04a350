/* A folder for rings that goes with the test, and a table of one column of each type. */
#ifndef RING_FOLDER_H
#define RING_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pb_test.h"

#include "store/reader.h"
#include "store/writer.h"

struct folder {
    char path[64];
    int fd;
};

static inline struct folder folder_make(void)
{
    struct folder f;

    strcpy(f.path, "/dev/shm/pb-ring-test-XXXXXX");
    if (!mkdtemp(f.path)) {
        strcpy(f.path, "/tmp/pb-ring-test-XXXXXX");
        assert_non_null(mkdtemp(f.path));
    }
    f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f.fd >= 0);
    return f;
}

/* Calls each(name) for the files in it, hidden ones too; returns how many there are. */
static inline size_t folder_files(const struct folder *f, void (*each)(int fd, const char *name))
{
    DIR *dir = opendir(f->path);
    struct dirent *e;
    size_t n = 0;

    assert_non_null(dir);
    while ((e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        n++;
        if (each)
            each(f->fd, e->d_name);
    }
    closedir(dir);
    return n;
}

static inline void folder_unlink(int fd, const char *name)
{
    unlinkat(fd, name, 0);
}

static inline void folder_remove(struct folder *f)
{
    folder_files(f, folder_unlink);
    close(f->fd);
    rmdir(f->path);
}

enum { C_TIME, C_INT, C_REAL, C_BOOL, C_NAME, C_TEXT, C_COUNT };

static const struct pb_column_spec all_columns[C_COUNT] = {
    {"timestamp", PB_TIME, "", "when"},   {"number", PB_INT, "", "an integer"},
    {"ratio", PB_REAL, "ms", "a double"}, {"flag", PB_BOOL, "", "yes or no"},
    {"word", PB_NAME, "", "repeats"},     {"line", PB_TEXT, "", "does not repeat"},
};

static const struct pb_ring_spec all_types = {
    .name = "test.all_types",
    .doc = "One column of each type",
    .columns = all_columns,
    .ncolumns = C_COUNT,
    .rows = 100,
};

static inline struct pb_ring *ring_make(const struct folder *f, const struct pb_ring_spec *spec)
{
    struct pb_err err = {0};
    struct pb_ring *r = NULL;

    if (pb_ring_create(&r, f->fd, spec, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return r;
}

static inline struct pb_reader reader_open(const struct folder *f, const char *file)
{
    struct pb_err err = {0};
    struct pb_reader r;

    if (pb_reader_open(&r, f->fd, file, &err) < 0)
        fail_msg("%s", err.msg);
    return r;
}

#endif
