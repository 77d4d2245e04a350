/* One table name over rings and files: no row twice, none lost, the same columns. */
#include "node/sql/fixture.h"

#include "node/archive/lake.h"

enum { ROWS = 1000 };

static const struct pb_column_spec columns[] = {
    {"timestamp", PB_TIME, "", "when"},
    {"number", PB_INT, "", "a number"},
    {"word", PB_NAME, "", "a word"},
    {"text", PB_TEXT, "", "a text"},
    {"date", PB_REAL, "", "a name that folders have as well"},
};

static void make_ring(struct sql_fixture *f, const char *id, const char *table, int64_t from)
{
    struct pb_ring_spec spec = {
        .name = table, .doc = "a test", .columns = columns, .ncolumns = 5, .rows = ROWS};
    int dir = sql_process(f, id, 4);
    struct pb_ring *r;
    struct pb_err err = {0};

    assert_int_equal(pb_ring_create(&r, dir, &spec, NULL, &err), 0);
    for (int i = 0; i < ROWS; i++)
        pb_ring_append(
            r, (union pb_cell[]){{.i = SQL_TIME + i},
                                 {.i = from + i},
                                 {.name = pb_ring_name(r, i % 2 ? "odd" : "even", i % 2 ? 3 : 4)},
                                 {.text = {i % 100 ? NULL : "text", 4}},
                                 {.d = i / 4.0}});
    pb_ring_close(r);
    close(dir);
}

/* Where the archive would put these rows. */
static void part_path(struct sql_fixture *f, const struct pb_store_ring *ring, uint64_t first,
                      uint64_t last, char path[PB_LAKE_PATH_MAX])
{
    struct pb_lake lake = {0};
    struct pb_series_id id;
    struct pb_part part = {
        .first = first, .last = last, .day = (int32_t)(SQL_TIME / 86400000000000)};
    struct pb_err err = {0};

    snprintf(lake.root, sizeof lake.root, "%s/lake", f->data);
    pb_series_name(&id, ring->reader.name, ring->store->host, ring->store->process.id,
                   ring->reader.created_ns);
    assert_int_equal(pb_part_folder(&lake, &id, part.day, path), 0);
    assert_int_equal(pb_lake_make(path, 0700, &err), 0);
    assert_int_equal(pb_part_path(&lake, &id, &part, path), 0);
}

static void seal(struct sql_fixture *f, uint64_t first, uint64_t last, char *path)
{
    struct pb_stores *stores = pb_discover_snapshot(f->node->discover, 0);
    struct pb_store_ring *ring = stores->stores[0]->rings[0];
    struct pb_err err = {0};
    uint64_t rows = 0;

    part_path(f, ring, first, last, path);
    if (pb_sql_write_ring(f->node->sql, ring, first, last, path, &rows, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(rows, last - first + 1);
    pb_stores_unref(stores);
}

static void reopen(struct sql_fixture *f)
{
    pb_node_destroy(f->node);
    sql_open(f, true);
}

static const char sums[] = "select count(*) as n, sum(number) as s, count(distinct number) as d, "
                           "count(text) as t, count(distinct word) as w, sum(date_) as r, "
                           "min(pid) as p, max(rank) as k, max(host) as h from python.t";
static const char all_rows[] = "{\"n\":1000,\"s\":499500,\"d\":1000,\"t\":10,\"w\":2,"
                               "\"r\":124875.0,\"p\":100,\"k\":4,\"h\":\"here\"}\n";

static void ring_and_files_are_one_table(void **state)
{
    struct sql_fixture *f = *state;
    char path[PB_LAKE_PATH_MAX];

    make_ring(f, "100-5", "python.t", 0);
    sql_open(f, true);
    sql_gives(f, PB_FORMAT_NDJSON, sums, all_rows);
    seal(f, 0, 299, path);
    seal(f, 300, 599, path);
    reopen(f);
    sql_gives(f, PB_FORMAT_NDJSON, sums, all_rows);
    /* Older rows come first, and the columns are those of the ring. */
    sql_gives(f, PB_FORMAT_CSV, "select * from python.t limit 2",
              "timestamp,number,word,text,date_,host,pid,rank\n"
              "2026-01-01T00:04:05.123456Z,0,even,text,0.0,here,100,4\n"
              "2026-01-01T00:04:05.123456Z,1,odd,,0.25,here,100,4\n");
    seal(f, 600, 999, path);
    reopen(f);
    sql_gives(f, PB_FORMAT_NDJSON, sums, all_rows);
}

static void files_answer_when_the_ring_is_gone(void **state)
{
    struct pb_scope_process other = {.pid = 7, .id = "7-7", .until_ns = INT64_MAX};
    struct pb_scope_process own = {.pid = 100, .id = "100-5", .until_ns = INT64_MAX};
    struct pb_scope scope = {.processes = &other, .nprocesses = 1};
    struct sql_fixture *f = *state;
    char path[PB_LAKE_PATH_MAX], command[160];

    make_ring(f, "100-5", "python.t", 0);
    sql_open(f, true);
    seal(f, 0, 999, path);
    snprintf(command, sizeof command, "rm -r %s/100-5", f->stores);
    assert_int_equal(system(command), 0);
    reopen(f);
    sql_gives(f, PB_FORMAT_NDJSON, sums, all_rows);
    f->scope = &scope;
    sql_gives(f, PB_FORMAT_NDJSON, "select count(*) as n from python.t", "{\"n\":0}\n");
    scope.processes = &own;
    sql_gives(f, PB_FORMAT_NDJSON, "select count(*) as n from python.t", "{\"n\":1000}\n");
    f->scope = NULL;
    sql_gives(f, PB_FORMAT_CSV, "select column_name, column_type from (describe from python.t)",
              "column_name,column_type\ntimestamp,TIMESTAMP WITH TIME ZONE\nnumber,BIGINT\n"
              "word,VARCHAR\ntext,VARCHAR\ndate_,DOUBLE\nhost,VARCHAR\npid,BIGINT\nrank,BIGINT\n");
    sql_fails(f, "select nuber from python.t", "no column 'nuber' in python.t; nearest: number", 7);
}

static void files_are_merged_in_order(void **state)
{
    struct sql_fixture *f = *state;
    char first[PB_LAKE_PATH_MAX], second[PB_LAKE_PATH_MAX], merged[PB_LAKE_PATH_MAX];
    struct pb_stores *stores;
    struct pb_err err = {0};

    make_ring(f, "100-5", "python.t", 0);
    sql_open(f, true);
    seal(f, 0, 499, first);
    seal(f, 500, 999, second);
    stores = pb_discover_snapshot(f->node->discover, 0);
    part_path(f, stores->stores[0]->rings[0], 0, 999, merged);
    pb_stores_unref(stores);
    assert_int_equal(
        pb_sql_merge_files(f->node->sql, (const char *[]){first, second}, 2, merged, &err), 0);
    unlink(first);
    unlink(second);
    reopen(f);
    sql_gives(f, PB_FORMAT_NDJSON, sums, all_rows);
    sql_gives(f, PB_FORMAT_NDJSON, "select number from python.t limit 2",
              "{\"number\":0}\n{\"number\":1}\n");
}

static void a_file_cannot_be_written_outside(void **state)
{
    struct sql_fixture *f = *state;
    struct pb_stores *stores;
    struct pb_err err = {0};
    uint64_t rows;

    make_ring(f, "100-5", "python.t", 0);
    sql_open(f, true);
    stores = pb_discover_snapshot(f->node->discover, 0);
    assert_int_equal(pb_sql_write_ring(f->node->sql, stores->stores[0]->rings[0], 0, 9,
                                       "/tmp/sql-test-leak.parquet", &rows, &err),
                     -1);
    assert_int_equal(access("/tmp/sql-test-leak.parquet", F_OK), -1);
    pb_stores_unref(stores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SQL_TEST(ring_and_files_are_one_table),
        SQL_TEST(files_answer_when_the_ring_is_gone),
        SQL_TEST(files_are_merged_in_order),
        SQL_TEST(a_file_cannot_be_written_outside),
    };

    return RUN_TESTS(tests);
}
