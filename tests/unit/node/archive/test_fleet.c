/* The shared lake: whatever step a node was killed at, each row comes to be read once. */
#include "node/archive/fake.h"

#include <utime.h>

#include "node/archive/fleet.h"
#include "node/archive/published.h"

static const char table[] = "python.numbers", hour[] = "date=2025-08-01/hour=07";
static const int64_t all[2] = {0, 0};

struct lake {
    char dir[64];
    struct pb_fleet ours, theirs;
    struct fake fake;
    struct pb_archive_writer writer;
    size_t parts; /* files that rows_read has seen */
    int64_t in_files; /* id of the batch that has_batch finds, as a time */
};

static int has_batch(void *arg, const char *glob, const char *batch, bool *ret, struct pb_err *err)
{
    struct fake *f = arg;
    const struct lake *l = (const struct lake *)((const char *)f - offsetof(struct lake, fake));

    (void)glob;
    (void)err;
    *ret = strtoll(batch, NULL, 10) == l->in_files;
    return 0;
}

static int setup(void **state)
{
    struct lake *l = calloc(1, sizeof *l);

    strcpy(l->dir, "/tmp/pb-fleet-XXXXXX");
    assert_non_null(mkdtemp(l->dir));
    pb_fleet_init(&l->ours, l->dir, "here", "/data");
    pb_fleet_init(&l->theirs, l->dir, "there", "/data");
    l->writer = (struct pb_archive_writer){.merge = fake_merge, .has_batch = has_batch,
                                           .arg = &l->fake};
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    struct lake *l = *state;

    pb_fleet_remove_tree(l->dir);
    free(l);
    return 0;
}

/* A batch of n rows from `first` on, below a folder of this kind ("" for those that wait). */
static void put_batch(struct lake *l, const char *in, const char *id, uint64_t first, size_t n)
{
    struct pb_err err = {0};
    char path[512];
    uint64_t rows[64];

    for (size_t i = 0; i < n; i++)
        rows[i] = first + i;
    snprintf(path, sizeof path, "%s/.waiting/%s/%s/batch-%s/%s", l->dir, table, in, id, hour);
    assert_int_equal(pb_lake_make(path, 0777, &err), 0);
    strcat(path, "/rows-0.parquet");
    fake_write(path, "plain", rows, n);
}

/* Rows that can be read, all different and from 0 on; and what is left waiting. */
static size_t rows_read(struct lake *l, size_t *ret_waiting)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *const *names;
    bool seen[256] = {false};
    uint64_t rows[256];
    char path[512];
    size_t n, sum = 0;

    snprintf(path, sizeof path, "%s/%s/%s", l->dir, table, hour);
    n = pb_fleet_list(path, "part-", &a, &names);
    for (size_t i = 0; i < n; i++) {
        size_t count = fake_read(pb_arena_printf(&a, "%s/part-%s", path, names[i]), rows, 256);

        for (size_t k = 0; k < count; k++) {
            assert_false(seen[rows[k]]);
            seen[rows[k]] = true;
        }
        sum += count;
    }
    l->parts = n;
    snprintf(path, sizeof path, "%s/.waiting/%s", l->dir, table);
    *ret_waiting = pb_fleet_list(path, "", &a, &names);
    pb_arena_finish(&a);
    return sum;
}

static void gather(struct lake *l, int64_t wait_ns)
{
    struct pb_err err = {0};

    assert_int_equal(pb_fleet_gather(&l->ours, &l->writer, wait_ns, &err), 0);
}

static void make_stale(struct lake *l, const char *name)
{
    struct utimbuf old = {.actime = 1000, .modtime = 1000};
    char path[512];

    snprintf(path, sizeof path, "%s/.waiting/%s/%s", l->dir, table, name);
    assert_int_equal(utime(path, &old), 0);
}

static void batches_become_one_file(void **state)
{
    struct lake *l = *state;
    struct pb_archive_table *tables;
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err err = {0};
    size_t waiting, n;

    put_batch(l, ".", "1000000000000000001-here-1", 0, 10);
    put_batch(l, ".", "1000000000000000002-there-2", 10, 10);
    gather(l, INT64_MAX / 2);
    assert_int_equal(rows_read(l, &waiting), 0);
    gather(l, 0);
    assert_int_equal(rows_read(l, &waiting), 20);
    assert_int_equal(waiting, 0);
    assert_int_equal(pb_fleet_scan(l->dir, all, &a, &tables, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(tables[0].files, 1);
    assert_int_equal(tables[0].rows, 20);
    assert_true(pb_fleet_is_lake(l->dir));
    pb_arena_finish(&a);
}

static void very_many_batches_become_one_file(void **state)
{
    struct lake *l = *state;
    uint64_t rows = 0;
    char id[64];
    size_t waiting;

    /* Each batch more than fits at once has no row, as the test's reader has room for few. */
    for (int i = 0; i < 2100; i++) {
        snprintf(id, sizeof id, "%d-here-1", 1000000 + i);
        put_batch(l, ".", id, rows, i % 100 == 0);
        rows += i % 100 == 0;
    }
    gather(l, 0);
    assert_int_equal(rows_read(l, &waiting), rows);
    assert_int_equal(waiting, 0);
    assert_int_equal(l->parts, 1);
    assert_int_equal(l->fake.merges, 3 + 1);
}

static void an_hour_of_too_many_bytes_becomes_several_files(void **state)
{
    struct lake *l = *state;
    char name[256], part[512];
    size_t waiting;

    l->writer.part_bytes = 1000; /* some 450 bytes each */
    snprintf(name, sizeof name, "claim-1-%s", l->ours.tag);
    for (int i = 0; i < 5; i++) {
        char id[64];

        snprintf(id, sizeof id, "%d", 1 + i);
        put_batch(l, name, id, (uint64_t)i * 50, 50);
    }
    gather(l, INT64_MAX / 2);
    assert_int_equal(rows_read(l, &waiting), 250);
    assert_int_equal(l->parts, 3);
    /* Killed while the batches went: those that are left have their rows in the files already. */
    put_batch(l, name, "3", 100, 50);
    put_batch(l, name, "5", 200, 50);
    gather(l, INT64_MAX / 2);
    assert_int_equal(rows_read(l, &waiting), 250);
    assert_int_equal(waiting, 0);
    /* Killed between two of the files. */
    snprintf(part, sizeof part, "%s/%s/%s/part-1-%s-1.parquet", l->dir, table, hour, l->ours.tag);
    assert_int_equal(unlink(part), 0);
    for (int i = 0; i < 5; i++) {
        char id[64];

        snprintf(id, sizeof id, "%d", 1 + i);
        put_batch(l, name, id, (uint64_t)i * 50, 50);
    }
    gather(l, INT64_MAX / 2);
    assert_int_equal(rows_read(l, &waiting), 250);
    assert_int_equal(l->parts, 3);
}

static void our_own_remains_are_taken_up(void **state)
{
    struct lake *l = *state;
    char name[256];
    size_t waiting;

    /* Killed while batches were being collected, and while they were being merged. */
    snprintf(name, sizeof name, "open-1-%s", l->ours.tag);
    put_batch(l, name, "1", 0, 5);
    snprintf(name, sizeof name, "claim-2-%s", l->ours.tag);
    put_batch(l, name, "2", 5, 5);
    gather(l, INT64_MAX / 2);
    assert_int_equal(rows_read(l, &waiting), 10);
    assert_int_equal(waiting, 0);
}

static void a_claim_whose_file_is_there_only_goes(void **state)
{
    struct lake *l = *state;
    struct pb_err err = {0};
    uint64_t rows[5] = {0, 1, 2, 3, 4};
    char path[512], name[256];
    size_t waiting;

    snprintf(name, sizeof name, "claim-1-%s", l->ours.tag);
    put_batch(l, name, "1", 0, 2); /* the other half of it was removed already */
    snprintf(path, sizeof path, "%s/%s/%s", l->dir, table, hour);
    assert_int_equal(pb_lake_make(path, 0777, &err), 0);
    snprintf(path, sizeof path, "%s/%s/%s/part-1-%s.parquet", l->dir, table, hour, l->ours.tag);
    fake_write(path, "plain", rows, 5);
    gather(l, 0);
    assert_int_equal(rows_read(l, &waiting), 5);
    assert_int_equal(waiting, 0);
    assert_int_equal(l->fake.merges, 0);
}

static void what_others_are_at_is_left_to_them_for_a_while(void **state)
{
    struct lake *l = *state;
    char open[256], claim[256];
    size_t waiting;

    snprintf(open, sizeof open, "open-1-%s", l->theirs.tag);
    put_batch(l, open, "1", 0, 5);
    snprintf(claim, sizeof claim, "claim-2-%s", l->theirs.tag);
    put_batch(l, claim, "2", 5, 5);
    gather(l, 0);
    assert_int_equal(rows_read(l, &waiting), 0);
    assert_int_equal(waiting, 2);
    make_stale(l, open);
    make_stale(l, claim);
    gather(l, 0);
    /* The one that was open has been touched by taking it over; the next round has it. */
    snprintf(claim, sizeof claim, "claim-1-%s", l->theirs.tag);
    if (rows_read(l, &waiting) < 10) {
        make_stale(l, claim);
        gather(l, 0);
    }
    assert_int_equal(rows_read(l, &waiting), 10);
    assert_int_equal(waiting, 0);
}

static void has(struct lake *l, const char *batch, bool expected)
{
    struct pb_err err = {0};
    bool there = !expected;

    assert_int_equal(pb_fleet_has(&l->ours, &l->writer, table, batch, &there, &err), 0);
    assert_int_equal(there, expected);
}

static void a_batch_is_found_wherever_it_is(void **state)
{
    struct lake *l = *state;

    has(l, "1-x", false);
    put_batch(l, ".", "1-x", 0, 1);
    put_batch(l, "open-9-z", "2-x", 1, 1);
    put_batch(l, "claim-9-z", "3-x", 2, 1);
    has(l, "1-x", true);
    has(l, "2-x", true);
    has(l, "3-x", true);
    has(l, "4-x", false);
    gather(l, 0);
    l->in_files = 1;
    has(l, "1-x", true);
}

static void notes_survive_and_belong_to_one_lake(void **state)
{
    struct lake *l = *state;
    struct pb_published p = {0};
    struct pb_err err = {0};
    char path[PB_LAKE_PATH_MAX];

    pb_published_path(path, l->dir, "here", table);
    *pb_published_find(&p, "12-34", 5) = (struct pb_published_series){"12-34", 5, 100, 200};
    strcpy(p.batch, "7-here");
    assert_int_equal(pb_published_save(&p, path, "/lake a", &err), 0);
    pb_published_finish(&p);
    pb_published_load(&p, path, "/lake a");
    assert_string_equal(p.batch, "7-here");
    assert_int_equal(pb_published_find(&p, "12-34", 5)->next, 100);
    assert_int_equal(pb_published_find(&p, "12-34", 5)->end, 200);
    pb_published_settle(&p, false);
    assert_int_equal(pb_published_find(&p, "12-34", 5)->end, 100);
    pb_published_finish(&p);
    pb_published_load(&p, path, "/lake a");
    pb_published_settle(&p, true);
    assert_int_equal(pb_published_find(&p, "12-34", 5)->next, 200);
    assert_string_equal(p.batch, "");
    pb_published_finish(&p);
    pb_published_load(&p, path, "/another");
    assert_int_equal(p.n, 0);
    assert_string_equal(p.batch, "");
    pb_published_finish(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batches_become_one_file),
        TEST(very_many_batches_become_one_file),
        TEST(an_hour_of_too_many_bytes_becomes_several_files),
        TEST(our_own_remains_are_taken_up),
        TEST(a_claim_whose_file_is_there_only_goes),
        TEST(what_others_are_at_is_left_to_them_for_a_while),
        TEST(a_batch_is_found_wherever_it_is),
        TEST(notes_survive_and_belong_to_one_lake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
