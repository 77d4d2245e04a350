#include "node/archive/fake.h"

#include "node/archive/footer.h"

static void names(void **state)
{
    struct pb_series_id s = {.table = "a.b", .host = "h", .process = "1-2", .ring = 7};
    struct pb_part p = {.first = 3, .last = 9, .day = 19000};
    struct pb_lake l = {.root = "/data/lake"};
    char path[PB_LAKE_PATH_MAX];
    uint64_t ring, first, last;

    (void)state;
    assert_int_equal(pb_part_path(&l, &s, &p, path), 0);
    assert_string_equal(path,
                        "/data/lake/a.b/date=2022-01-08/host=h/process=1-2/part-7-3-9.parquet");
    assert_true(pb_part_parse("part-7-3-9.parquet", &ring, &first, &last));
    assert_int_equal(ring, 7);
    assert_int_equal(first, 3);
    assert_int_equal(last, 9);
    assert_false(pb_part_parse("part-7-9-3.parquet", &ring, &first, &last));
    assert_false(pb_part_parse("part-7-3-9.parquet.broken", &ring, &first, &last));
    assert_false(pb_part_parse(".part-7-3-9.parquet", &ring, &first, &last));
    assert_false(pb_part_parse("part-7-03-9.parquet", &ring, &first, &last));
    assert_false(pb_part_parse("part-7-3.parquet", &ring, &first, &last));
    assert_false(pb_part_parse("part-7--9.parquet", &ring, &first, &last));
    assert_false(pb_part_parse("part-7-3-18446744073709551616.parquet", &ring, &first, &last));
}

static void check_host(const char *in, const char *out)
{
    char buf[PB_LAKE_HOST_MAX];

    pb_lake_host(buf, in);
    assert_string_equal(buf, out);
}

static void hosts_and_tables(void **state)
{
    char longest[200];

    (void)state;
    check_host("node-1.example", "node-1.example");
    check_host("../../etc", "_._.._etc");
    check_host("a b=c*?", "a_b_c__");
    check_host("", "unknown");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(pb_lake_is_table(longest));
    assert_true(pb_lake_is_table("python.memory_2"));
    assert_false(pb_lake_is_table("python"));
    assert_false(pb_lake_is_table("python.x.y"));
    assert_false(pb_lake_is_table(".memory"));
    assert_false(pb_lake_is_table("../x.y"));
    assert_false(pb_lake_is_table("python.Memory"));
}

static void footer(void **state)
{
    unsigned char bytes[64];
    size_t len = fake_footer(bytes, "plain", 1000);
    struct pb_footer f, other;

    (void)state;
    assert_int_equal(pb_footer_parse(&f, bytes, len), 0);
    assert_int_equal(f.rows, 1000);
    len = fake_footer(bytes, "plain", 5);
    assert_int_equal(pb_footer_parse(&other, bytes, len), 0);
    assert_true(f.columns == other.columns);
    len = fake_footer(bytes, "plaim", 5);
    assert_int_equal(pb_footer_parse(&other, bytes, len), 0);
    assert_true(f.columns != other.columns);
    for (size_t cut = 0; cut + 1 < len; cut++)
        assert_int_equal(pb_footer_parse(&other, bytes, cut), -1);
}

/* Whatever the bytes are, reading them ends and stays within. */
static void footer_of_nonsense(void **state)
{
    unsigned char bytes[48];
    struct pb_footer f;

    (void)state;
    srandom(1);
    for (int round = 0; round < 20000; round++) {
        size_t len = fake_footer(bytes, "plain", 1000);

        for (int i = 0; i < 3; i++)
            bytes[(size_t)random() % len] = (unsigned char)random();
        pb_footer_parse(&f, bytes, len);
    }
    memset(bytes, 0x1c, sizeof bytes); /* structs in structs */
    assert_int_equal(pb_footer_parse(&f, bytes, sizeof bytes), -1);
    memset(bytes, 0xf9, sizeof bytes); /* endless lists of lists */
    assert_int_equal(pb_footer_parse(&f, bytes, sizeof bytes), -1);
}

static void make_file(const char *root, const char *path)
{
    char full[512], folder[512];

    snprintf(full, sizeof full, "%s/%s", root, path);
    snprintf(folder, sizeof folder, "%s", full);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(pb_lake_make(folder, 0700, NULL), 0);
    fake_write(full, "plain", NULL, 0);
}

static void strange_things_in_the_folder(void **state)
{
    char root[] = "/tmp/pb-lake-XXXXXX";
    struct pb_finds finds;
    struct pb_err err = {0};

    (void)state;
    assert_non_null(mkdtemp(root));
    make_file(root, "a.b/date=2024-02-29/host=h/process=1-2/part-7-3-9.parquet");
    make_file(root, "a.b/date=2023-02-29/host=h/process=1-2/part-7-3-9.parquet");
    make_file(root, "a.b/date=tomorrow/host=h/process=1-2/part-7-3-9.parquet");
    make_file(root, "a.b/date=2024-02-29/host=h/process=x/part-7-3-9.parquet");
    make_file(root, "a.b/date=2024-02-29/host=h/process=1-2/readme.txt");
    make_file(root, "a.b/date=2024-02-29/host=a b/process=1-2/part-7-3-9.parquet");
    make_file(root, "notes/date=2024-02-29/host=h/process=1-2/part-7-3-9.parquet");
    make_file(root, "a.b/part-7-3-9.parquet");
    assert_int_equal(pb_lake_scan(root, ".h", &finds, &err), 0);
    assert_int_equal(finds.n, 1);
    assert_string_equal(finds.found[0].key.process, "1-2");
    assert_int_equal(finds.found[0].part.last, 9);
    pb_finds_finish(&finds);
    assert_int_equal(pb_lake_scan("/tmp/pb-lake-that-is-not-there", NULL, &finds, &err), 0);
    assert_int_equal(finds.n, 0);
    nftw(root, fake_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(hosts_and_tables),
        cmocka_unit_test(footer),
        cmocka_unit_test(footer_of_nonsense),
        cmocka_unit_test(strange_things_in_the_folder),
    };

    return RUN_TESTS(tests);
}
