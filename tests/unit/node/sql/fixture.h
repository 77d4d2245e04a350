/* A node over a folder of the test's own, with real rings and the real engine. */
#ifndef PB_TEST_SQL_FIXTURE_H
#define PB_TEST_SQL_FIXTURE_H

#include "pb_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/text/buf.h"
#include "node/parts.h"
#include "store/writer.h"

#define SQL_TIME INT64_C(1767225845123456789) /* 2026-01-01T00:04:05.123456789Z */

struct sql_fixture {
    char root[64]; /* holds stores/ and data/ */
    char stores[80], data[80];
    struct pb_node *node;
    /* The last answer. */
    struct pb_buf out;
    struct pb_sql_done done;
    struct pb_sql_error err;
    const struct pb_scope *scope; /* NULL: all */
    const _Atomic bool *cancelled;
    uint64_t max_rows;
    int timeout_ms;
};

static inline int sql_sink(const void *data, size_t len, void *arg)
{
    pb_buf_add(&((struct sql_fixture *)arg)->out, data, len);
    return 0;
}

static inline void sql_open(struct sql_fixture *f, bool with_data)
{
    struct pb_node_opts o = {.store_dir = f->stores, .data_dir = with_data ? f->data : NULL};
    struct pb_err err = {0};

    assert_int_equal(pb_node_create(&f->node, &o, &err), 0);
}

static inline int sql_setup(void **state)
{
    struct sql_fixture *f = calloc(1, sizeof *f);

    snprintf(f->root, sizeof f->root, "/tmp/sql-test-XXXXXX");
    if (!mkdtemp(f->root))
        return -1;
    snprintf(f->stores, sizeof f->stores, "%s/stores", f->root);
    snprintf(f->data, sizeof f->data, "%s/data", f->root);
    mkdir(f->stores, 0700);
    mkdir(f->data, 0700);
    *state = f;
    return 0;
}

static inline int sql_teardown(void **state)
{
    struct sql_fixture *f = *state;
    char command[128];
    int rc;

    pb_node_destroy(f->node);
    pb_buf_finish(&f->out);
    pb_buf_finish(&f->done.notices);
    snprintf(command, sizeof command, "rm -rf %s", f->root);
    rc = system(command);
    free(f);
    return rc;
}

/* The folder of a process, "<pid>-<start>"; a descriptor of it. */
static inline int sql_process(struct sql_fixture *f, const char *id, int rank)
{
    char path[160], meta[128];
    int dir, fd, n;

    snprintf(path, sizeof path, "%s/%s", f->stores, id);
    mkdir(path, 0700);
    dir = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(dir >= 0);
    n = snprintf(meta, sizeof meta, "format=1\npid=%d\nhost=here\nrank=%d\n", atoi(id), rank);
    fd = openat(dir, "meta", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, meta, (size_t)n), n);
    close(fd);
    return dir;
}

/* Runs it; the answer is in f->out, 0 or -1. */
static inline int sql_run(struct sql_fixture *f, enum pb_format format, const char *sql)
{
    static const struct pb_scope all = {.all = true};
    struct pb_query q = {
        .sql = sql,
        .scope = f->scope ? f->scope : &all,
        .format = format,
        .max_rows = f->max_rows,
        .timeout_ms = f->timeout_ms,
        .cancelled = f->cancelled,
        .sink = sql_sink,
        .arg = f,
    };

    pb_buf_clear(&f->out);
    pb_buf_putc(&f->out, 0);
    pb_buf_clear(&f->out);
    pb_buf_finish(&f->done.notices);
    return pb_sql_run(f->node->sql, &q, &f->done, &f->err);
}

/* It must work and give exactly these bytes. */
static inline void sql_gives(struct sql_fixture *f, enum pb_format format, const char *sql,
                             const char *expected)
{
    if (sql_run(f, format, sql) < 0)
        fail_msg("%s: %s", sql, f->err.err.msg);
    assert_string_equal(f->out.data ? f->out.data : "", expected);
}

/* It must fail with this line, at this byte. */
static inline void sql_fails(struct sql_fixture *f, const char *sql, const char *message, long at)
{
    assert_int_equal(sql_run(f, PB_FORMAT_JSON, sql), -1);
    assert_string_equal(f->err.err.msg, message);
    assert_int_equal(f->err.at, at);
}

#ifdef __SANITIZE_THREAD__
/*
 * The engine is not built for the thread sanitizer: how it hands things from one thread to another
 * is not seen. What our own threads share is.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:libduckdb.so\nrace:libstdc++.so\ncalled_from_lib:libduckdb.so\nmutex:libduckdb."
           "so\n";
}
#endif

#define SQL_TEST(function) cmocka_unit_test_setup_teardown(function, sql_setup, sql_teardown)

#endif
