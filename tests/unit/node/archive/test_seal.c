#include "node/archive/fake.h"

static const int64_t DAY = INT64_C(86400000000000);

static void set_delay(struct fake *f, int64_t ms)
{
    atomic_store(&f->archive->delay_ns, ms * 1000000);
}

static void half_full_is_sealed(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 500);
    fake_look(&f);
    assert_int_equal(f.writes, 0);
    fake_append(&f, 12);
    fake_look(&f);
    assert_sealed(&f, 0, 511);
    assert_int_equal(f.seen.sealed, 512);
    fake_append(&f, 5000);
    fake_look(&f); /* overwritten before anybody came */
    assert_int_equal(fake_status(&f).lost_rows, 5000 - 1024);
    assert_int_equal(f.seen.sealed, 5512);
    fake_walk(&f);
    assert_int_equal(lake.times[511], 1);
    assert_int_equal(lake.times[512], 0);
    assert_int_equal(lake.times[5512 - 1024], 1);
    assert_int_equal(lake.times[5511], 1);
    assert_int_equal(fake_status(&f).sealed_rows, 512 + 1024);
    fake_end(&f);
}

static void slow_rows_are_sealed_in_time(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    set_delay(&f, 60000);
    fake_append(&f, 3);
    fake_look(&f);
    assert_int_equal(f.writes, 0);
    set_delay(&f, 20);
    usleep(30000);
    fake_look(&f);
    assert_sealed(&f, 0, 2);
    fake_look(&f);
    assert_int_equal(f.writes, 1);
    fake_end(&f);
}

static void dead_and_closed_are_sealed_at_once(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 3);
    f.store.process.live = false;
    fake_look(&f);
    assert_sealed(&f, 0, 2);
    fake_end(&f);

    fake_begin(&f, 1024);
    fake_append(&f, 4);
    pb_ring_retire(f.ring);
    fake_look(&f);
    assert_sealed(&f, 0, 3);
    fake_end(&f);
}

static void next_node_goes_on(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 600);
    fake_look(&f);
    fake_reopen(&f);
    assert_int_equal(f.seen.sealed, 600);
    fake_append(&f, 600);
    fake_look(&f);
    assert_sealed(&f, 0, 1199);
    fake_end(&f);
}

/* As another ring of the same name: a second agent in the same process. */
static void other_ring_is_not_sealed(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 600);
    fake_look(&f);
    f.seen.reader.created_ns++;
    pb_archive_adopt(f.archive, &f.seen);
    assert_int_equal(f.seen.sealed, 0);
    fake_end(&f);
}

static void unfinished_file_is_removed(void **state)
{
    struct fake f;
    char *slash;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 600);
    fake_look(&f);
    fake_walk(&f);
    slash = strrchr(lake.last, '/');
    strcpy(slash + 1, ".part-1-0-9.parquet.here");
    fake_write(lake.last, "plain", NULL, 0);
    strcpy(slash + 1, ".part-1-0-9.parquet.elsewhere"); /* another host's, on a shared disk */
    fake_write(lake.last, "plain", NULL, 0);
    fake_walk(&f);
    assert_int_equal(lake.hidden, 2);
    fake_reopen(&f);
    assert_sealed(&f, 0, 599);
    assert_int_equal(lake.hidden, 1);
    fake_end(&f);
}

static void full_disk(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 600);
    f.fail = 1;
    fake_look(&f);
    assert_non_null(strstr(fake_status(&f).reason, "test.rows, process 12-34: No space left"));
    for (int i = 0; i < 10; i++)
        fake_look(&f); /* no hurry */
    assert_int_equal(f.writes, 1);
    fake_walk(&f);
    assert_int_equal(lake.files + lake.hidden, 0);
    usleep(1010000);
    fake_look(&f);
    assert_sealed(&f, 0, 599);
    assert_string_equal(fake_status(&f).reason, "");
    assert_int_equal(fake_status(&f).lost_rows, 0);
    fake_end(&f);
}

/* The sequence word of a row, as if its writer were still at it or had never come. */
static void set_word(struct fake *f, uint64_t row, uint64_t word)
{
    int fd = openat(f->fd, "test.rows.0.ring", O_RDWR | O_CLOEXEC);

    assert_int_equal(pwrite(fd, &word, 8, (off_t)(f->seen.reader.sequence_at +
                                                  8 * (row & (f->seen.reader.capacity - 1)))), 8);
    close(fd);
}

static void set_dropped(struct fake *f, uint64_t rows)
{
    int fd = openat(f->fd, "test.rows.0.ring", O_RDWR | O_CLOEXEC);

    assert_int_equal(pwrite(fd, &rows, 8, offsetof(struct pb_ring_head, dropped)), 8);
    close(fd);
}

static void waits_for_a_writer(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 600);
    set_word(&f, 100, PB_SEQ_BUSY(100));
    fake_look(&f);
    assert_sealed(&f, 0, 99);
    fake_look(&f);
    assert_int_equal(f.writes, 1);
    set_word(&f, 100, PB_SEQ_DONE(100));
    fake_append(&f, 100);
    fake_look(&f);
    assert_sealed(&f, 0, 699);
    fake_end(&f);
}

static void dead_writer_is_passed_over(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 600);
    set_word(&f, 100, PB_SEQ_BUSY(100));
    f.store.process.live = false;
    fake_look(&f);
    fake_walk(&f);
    assert_int_equal(lake.files, 1);
    assert_int_equal(lake.times[99] + lake.times[101] + lake.times[599], 3);
    assert_int_equal(lake.times[100], 0);
    assert_int_equal(fake_status(&f).lost_rows, 1);
    fake_end(&f);
}

static void stuck_writer_holds_up_no_longer_than_there_is_room(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 700);
    set_word(&f, 0, PB_SEQ_BUSY(0));
    fake_look(&f);
    assert_int_equal(f.writes, 0);
    fake_append(&f, 100);
    fake_look(&f);
    assert_sealed(&f, 1, 799);
    assert_int_equal(fake_status(&f).lost_rows, 1);
    fake_end(&f);
}

static void dropped_row_is_passed_over_and_not_lost(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    fake_append(&f, 600);
    set_word(&f, 100, 0);
    set_dropped(&f, 1);
    fake_look(&f);
    assert_sealed(&f, 0, 99);
    set_delay(&f, 0);
    usleep(1010000);
    fake_look(&f);
    fake_walk(&f);
    assert_int_equal(lake.times[100], 0);
    assert_int_equal(lake.times[101] + lake.times[599], 2);
    assert_int_equal(fake_status(&f).lost_rows, 0);
    fake_end(&f);
}

/* Every other row is missing: they are not looked for one by one. */
static void gaps_are_passed_over_together(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 65536);
    fake_append(&f, 40000);
    for (uint64_t row = 0; row < 40000; row += 2)
        set_word(&f, row, 0);
    f.store.process.live = false;
    for (int i = 0; i < 5; i++) /* one, but each look has its time */
        fake_look(&f);
    assert_int_equal(f.seen.sealed, 40000);
    assert_true(f.writes <= 5);
    fake_end(&f);
}

/* Bytes that this process has read so far, as the kernel counts them; 0: it does not. */
static uint64_t bytes_read(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");

    if (f && fscanf(f, "rchar: %llu", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

/* A file of a few pages that says it has millions of rows: they are not read to be missed. */
static void make_sparse(struct fake *f, uint64_t rows)
{
    int fd = openat(f->fd, "test.rows.0.ring", O_RDWR | O_CLOEXEC);
    struct pb_ring_column column;
    struct pb_ring_head h;
    struct pb_err err = {0};
    uint64_t at = 1 << 16;

    pb_reader_close(&f->seen.reader);
    assert_int_equal(pread(fd, &h, sizeof h, 0), (ssize_t)sizeof h);
    h.capacity = rows;
    h.sequence_at = at;
    h.file_size = at + rows * 8 * 3;
    atomic_store(&h.next, rows);
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), (ssize_t)sizeof h);
    for (uint64_t i = 0; i < 2; i++) {
        off_t place = (off_t)(h.columns_at + i * h.column_size);

        assert_int_equal(pread(fd, &column, sizeof column, place), (ssize_t)sizeof column);
        column.at = at + rows * 8 * (i + 1);
        assert_int_equal(pwrite(fd, &column, sizeof column, place), (ssize_t)sizeof column);
    }
    assert_int_equal(ftruncate(fd, (off_t)h.file_size), 0);
    close(fd);
    assert_int_equal(pb_reader_open(&f->seen.reader, f->fd, "test.rows.0.ring", &err), 0);
}

static void rows_of_a_sparse_file_are_not_read(void **state)
{
    const uint64_t rows = 1 << 24;
    uint64_t before;
    struct fake f;

    (void)state;
    if (!bytes_read())
        skip();
    fake_begin(&f, 64);
    make_sparse(&f, rows);
    f.store.process.live = false;
    before = bytes_read();
    for (int i = 0; i < 1000 && f.seen.sealed < rows; i++)
        fake_look(&f);
    assert_int_equal(f.seen.sealed, rows);
    assert_in_range(bytes_read() - before, 0, rows);
    fake_end(&f);
}

/* A stranger's rows of a different day each: no file for each of them. */
static void days_of_a_stranger(void **state)
{
    struct fake f;

    (void)state;
    fake_begin(&f, 1024);
    f.store.foreign = true;
    f.seen.reader.created_ns = 0;
    for (int64_t i = 0; i < 500; i++)
        pb_ring_append(f.ring, (union pb_cell[]){{.i = i * INT64_C(86400000000000)}, {.i = i}});
    f.store.process.live = false;
    for (int i = 0; i < 3; i++)
        fake_look(&f);
    assert_int_equal(f.seen.sealed, 500);
    assert_true(f.writes <= 2);
    fake_end(&f);
}

static void midnight_splits(void **state)
{
    struct fake f;
    int64_t now = pb_clock_wall_ns(), midnight = now / DAY * DAY;

    (void)state;
    fake_begin(&f, 1024);
    f.seen.reader.created_ns = (uint64_t)(midnight - DAY);
    pb_archive_adopt(f.archive, &f.seen);
    fake_append_at(&f, midnight - 1, 300);
    fake_append_at(&f, midnight, 1);
    fake_append_at(&f, midnight - 1, 1); /* a slow thread: stays with its neighbours */
    fake_append_at(&f, now + 7 * DAY, 300);
    fake_append_at(&f, 0, 1);
    /* A look has a time budget, which a busy machine may use up; few rows of the living wait. */
    f.store.process.live = false;
    for (int tries = 0; tries < 100 && f.seen.sealed < 603; tries++)
        fake_look(&f);
    assert_sealed(&f, 0, 602);
    assert_int_equal(lake.files, 2);
    fake_reopen(&f);
    assert_int_equal(f.seen.sealed, 603);
    assert_int_equal(f.archive->lake.series[0]->nparts, 2);
    assert_int_equal(f.archive->lake.series[0]->parts[0].day, now / DAY - 1);
    assert_int_equal(f.archive->lake.series[0]->parts[0].last, 299);
    assert_int_equal(f.archive->lake.series[0]->parts[0].last_ns, midnight - 1);
    assert_true(f.archive->lake.series[0]->parts[1].last_ns >= now);
    fake_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_full_is_sealed),
        cmocka_unit_test(slow_rows_are_sealed_in_time),
        cmocka_unit_test(dead_and_closed_are_sealed_at_once),
        cmocka_unit_test(next_node_goes_on),
        cmocka_unit_test(other_ring_is_not_sealed),
        cmocka_unit_test(unfinished_file_is_removed),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(waits_for_a_writer),
        cmocka_unit_test(dead_writer_is_passed_over),
        cmocka_unit_test(stuck_writer_holds_up_no_longer_than_there_is_room),
        cmocka_unit_test(dropped_row_is_passed_over_and_not_lost),
        cmocka_unit_test(gaps_are_passed_over_together),
        cmocka_unit_test(rows_of_a_sparse_file_are_not_read),
        cmocka_unit_test(days_of_a_stranger),
        cmocka_unit_test(midnight_splits),
    };

    return RUN_TESTS(tests);
}
