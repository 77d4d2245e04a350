#include "node/archive/fake.h"

static const int64_t DAY = INT64_C(86400000000000);

/* So many parts of so many rows each, from one process. */
static void seal_parts(struct fake *f, int parts, uint64_t rows)
{
    atomic_store(&f->archive->delay_ns, 0);
    for (int i = 0; i < parts; i++) {
        fake_append(f, rows);
        fake_look(f);
    }
}

static void tidy(struct fake *f)
{
    for (int i = 0; i < 100 && pb_archive_tidy(f->archive); i++)
        ;
}

static void small_parts_become_one(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    seal_parts(&f, 7, 10);
    tidy(&f);
    assert_int_equal(f.merges, 0);
    seal_parts(&f, 1, 10);
    tidy(&f);
    assert_int_equal(f.merges, 1);
    assert_sealed(&f, 0, 79);
    assert_int_equal(lake.files, 1);
    assert_int_equal(lake.hidden, 0);
    seal_parts(&f, 1, 10);
    fake_reopen(&f);
    assert_int_equal(f.seen.sealed, 90);
    assert_sealed(&f, 0, 89);
    fake_end(&f);
}

/* Large ones are not written again and again for the sake of a few rows. */
static void merging_stays_cheap(void **state)
{
    struct fake f;
    int parts = 200;

    (void)state;
    fake_begin(&f, 16384);
    for (int i = 0; i < parts; i++) {
        seal_parts(&f, 1, 1000);
        pb_archive_tidy(f.archive);
    }
    assert_sealed(&f, 0, (uint64_t)parts * 1000 - 1);
    assert_in_range(lake.files, 1, 20);
    assert_in_range(f.merges, 3, 40);
    fake_end(&f);
}

static void finished_ones_become_one(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    seal_parts(&f, 3, 10);
    f.archive->lake.series[0]->parts[0].last_ns -= DAY / 2;
    f.archive->lake.series[0]->parts[1].last_ns -= DAY / 2;
    tidy(&f);
    assert_int_equal(f.merges, 0);
    f.archive->lake.series[0]->parts[2].last_ns -= DAY / 2;
    tidy(&f);
    assert_sealed(&f, 0, 29);
    assert_int_equal(lake.files, 1);
    fake_end(&f);
}

/* The node was killed when the merged file had its name and the sources were still there. */
static void stale_parts_are_removed(void **state)
{
    uint64_t rows[30];
    struct fake f;
    char *slash;

    (void)state;
    fake_begin(&f, 1024);
    seal_parts(&f, 3, 10);
    fake_walk(&f);
    slash = strrchr(lake.last, '/');
    for (uint64_t i = 0; i < 30; i++)
        rows[i] = i;
    sprintf(slash + 1, "part-%llu-0-29.parquet", (unsigned long long)f.seen.reader.created_ns);
    fake_write(lake.last, "plain", rows, 30);
    fake_reopen(&f);
    assert_int_equal(f.seen.sealed, 30);
    assert_sealed(&f, 0, 29);
    assert_int_equal(lake.files, 1);
    fake_end(&f);
}

static void nothing_goes_while_a_query_runs(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    seal_parts(&f, 8, 10);
    pb_archive_begin(f.archive);
    pb_archive_bound(f.archive);
    atomic_store(&f.archive->keep_bytes, 0);
    pb_archive_tidy(f.archive);
    fake_walk(&f);
    assert_int_equal(lake.files, 8);
    seal_parts(&f, 1, 10); /* but new ones come */
    assert_sealed(&f, 0, 89);
    pb_archive_end(f.archive);
    tidy(&f);
    fake_walk(&f);
    assert_int_equal(lake.files, 0);
    fake_end(&f);
}

static void old_days_go(void **state)
{
    struct pb_archive_table *tables;
    struct pb_arena arena = PB_ARENA_INIT;
    int64_t now = pb_clock_wall_ns();
    char path[96];
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    f.seen.reader.created_ns = (uint64_t)(now - 30 * DAY);
    pb_archive_adopt(f.archive, &f.seen);
    atomic_store(&f.archive->delay_ns, 0);
    for (int day = 20; day >= 0; day -= 2)
        fake_append_at(&f, now - day * DAY, 50);
    for (int i = 0; i < 40; i++) /* one look has a time limit, which a busy machine may use up */
        fake_look(&f);
    assert_sealed(&f, 0, 549);
    assert_int_equal(lake.files, 11);
    atomic_store(&f.archive->keep_days, 5);
    tidy(&f);
    assert_sealed(&f, 400, 549);
    assert_int_equal(lake.files, 3);
    assert_int_equal(pb_archive_tables(f.archive, &arena, &tables), 1);
    assert_int_equal(tables[0].rows, 150);
    assert_int_equal(tables[0].files, 3);
    atomic_store(&f.archive->keep_bytes, (int64_t)tables[0].bytes / 3 * 2);
    tidy(&f);
    assert_sealed(&f, 450, 549);
    atomic_store(&f.archive->keep_bytes, 0);
    tidy(&f);
    assert_int_equal(pb_archive_tables(f.archive, &arena, &tables), 0);
    snprintf(path, sizeof path, "%s/data/lake/test.rows", f.dir);
    assert_int_equal(access(path, F_OK), -1);
    /* They do not come back, though the ring still has them. */
    fake_look(&f);
    fake_walk(&f);
    assert_int_equal(lake.files, 0);
    pb_arena_finish(&arena);
    fake_end(&f);
}

static void broken_file_is_put_aside(void **state)
{
    struct fake f;
    FILE *file;

    (void)state;
    fake_begin(&f, 1024);
    seal_parts(&f, 2, 10);
    fake_walk(&f);
    file = fopen(lake.last, "w");
    fputs("PAR1 and no more", file);
    fclose(file);
    fake_reopen(&f);
    tidy(&f);
    assert_non_null(strstr(fake_status(&f).reason, "cut off"));
    fake_walk(&f);
    assert_int_equal(lake.files, 1);
    assert_int_equal(lake.hidden, 1);
    fake_end(&f);
}

static void tables_and_processes(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_archive_process *p;
    struct pb_archive_table *t;
    uint64_t changes;
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    assert_int_equal(pb_archive_tables(f.archive, &arena, &t), 0);
    assert_int_equal(pb_archive_processes(f.archive, &arena, &p), 0);
    seal_parts(&f, 2, 10);
    assert_int_equal(pb_archive_tables(f.archive, &arena, &t), 1);
    assert_string_equal(t->name, "test.rows");
    assert_non_null(strstr(t->glob, "/test.rows/date=*/host=*/process=*/part-*.parquet"));
    assert_false(t->mixed);
    assert_int_equal(t->rows, 20);
    changes = t->changes;
    seal_parts(&f, 1, 10);
    pb_archive_tables(f.archive, &arena, &t);
    assert_true(t->changes == changes);
    assert_int_equal(pb_archive_processes(f.archive, &arena, &p), 1);
    assert_string_equal(p->id, "12-34");
    assert_string_equal(p->host, "here");
    assert_true(pb_clock_wall_ns() - p->last_ns < DAY);

    fake_walk(&f);
    fake_write(lake.last, "other", (uint64_t[]){1}, 1);
    fake_reopen(&f);
    pb_archive_tables(f.archive, &arena, &t);
    assert_true(t->mixed); /* nobody looked */
    tidy(&f);
    pb_archive_tables(f.archive, &arena, &t);
    assert_true(t->mixed);
    assert_true(t->changes != changes);
    pb_arena_finish(&arena);
    fake_end(&f);
}

static void second_node_is_refused(void **state)
{
    struct pb_archive_opts o = {.host = "here", .background = true};
    struct pb_archive *second;
    struct pb_err err = {0};
    struct fake f;
    char data[96];

    (void)state;
    fake_begin(&f, 1024);
    snprintf(data, sizeof data, "%s/data", f.dir);
    o.data_dir = data;
    assert_int_equal(pb_archive_open(&second, &o, &err), -1);
    assert_non_null(strstr(err.msg, "another node has it"));
    err = (struct pb_err){0};
    /* One of another host on a shared disk, and one that only reads, are welcome. */
    o.host = "there";
    assert_int_equal(pb_archive_open(&second, &o, &err), 0);
    pb_archive_close(second);
    o.host = "here";
    o.background = false;
    assert_int_equal(pb_archive_open(&second, &o, &err), 0);
    pb_archive_close(second);
    fake_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_parts_become_one),
        cmocka_unit_test(merging_stays_cheap),
        cmocka_unit_test(finished_ones_become_one),
        cmocka_unit_test(stale_parts_are_removed),
        cmocka_unit_test(nothing_goes_while_a_query_runs),
        cmocka_unit_test(old_days_go),
        cmocka_unit_test(broken_file_is_put_aside),
        cmocka_unit_test(tables_and_processes),
        cmocka_unit_test(second_node_is_refused),
    };

    return RUN_TESTS(tests);
}
