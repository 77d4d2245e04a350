/* Folders of processes for tests: made in a folder of the test's own, with real rings. */
#ifndef PB_TEST_STORES_H
#define PB_TEST_STORES_H

#include "pb_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/writer.h"

static char stores_root[] = "/tmp/stores-test-XXXXXX";

static int stores_setup(void **state)
{
    (void)state;
    strcpy(stores_root + sizeof stores_root - 7, "XXXXXX");
    return mkdtemp(stores_root) ? 0 : -1;
}

static int stores_teardown(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", stores_root);
    return system(command);
}

static void stores_write(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* The folder of a process; a descriptor of it. */
static int stores_make(const char *id, const char *meta)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", stores_root, id);
    assert_int_equal(mkdir(path, 0700), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    if (meta)
        stores_write(fd, "meta", meta);
    return fd;
}

/* A ring with rows (time, n) for n from 0; closed. */
static void stores_ring(int dir, const char *table, int64_t time_ns, int rows)
{
    static const struct pb_column_spec columns[] = {
        {"timestamp", PB_TIME, "", "when"},
        {"n", PB_INT, "", "number of the row"},
    };
    struct pb_ring_spec spec = {.name = table, .doc = "a test", .columns = columns, .ncolumns = 2,
                                .rows = 256};
    struct pb_ring *ring;
    struct pb_err err = {0};

    assert_int_equal(pb_ring_create(&ring, dir, &spec, NULL, &err), 0);
    for (int i = 0; i < rows; i++)
        pb_ring_append(ring, (union pb_cell[]){{.i = time_ns + i}, {.i = i}});
    pb_ring_close(ring);
}

#endif
