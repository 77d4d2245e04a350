/* Making rings and letting go of them: specs, layout, generations, retiring, forks. */
#include "store/ring_folder.h"

#include <sys/stat.h>
#include <sys/wait.h>

static void refuse(const struct folder *f, struct pb_ring_spec spec, const char *why)
{
    struct pb_err err = {0};
    struct pb_ring *w = NULL;

    assert_int_equal(pb_ring_create(&w, f->fd, &spec, NULL, &err), -1);
    assert_int_equal(err.code, PB_USAGE);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    assert_null(w);
    assert_int_equal(folder_files(f, NULL), 0);
}

static struct pb_ring_spec with_name(const char *name)
{
    struct pb_ring_spec spec = all_types;

    spec.name = name;
    return spec;
}

static struct pb_ring_spec with_columns(const struct pb_column_spec *columns, size_t n)
{
    struct pb_ring_spec spec = all_types;

    spec.columns = columns;
    spec.ncolumns = n;
    return spec;
}

static void bad_specs(void **state)
{
    struct folder f = folder_make();
    const struct pb_column_spec twins[] = {{"a", PB_INT, "", ""}, {"A", PB_INT, "", ""}};
    const struct pb_column_spec empty[] = {{"", PB_INT, "", ""}};
    const struct pb_column_spec odd[] = {{"a\nb", PB_INT, "", ""}};
    const struct pb_column_spec strange[] = {{"a", (enum pb_type)77, "", ""}};
    char longer[PB_RING_NAME + 1] = "test.";

    (void)state;
    memset(longer + 5, 'x', sizeof longer - 6);
    refuse(&f, with_name("nodot"), "schema.name");
    refuse(&f, with_name("a.b.c"), "schema.name");
    refuse(&f, with_name("../a"), "schema.name");
    refuse(&f, with_name("a."), "schema.name");
    refuse(&f, with_name("A.b"), "schema.name");
    refuse(&f, with_name(longer), "schema.name");
    refuse(&f, with_columns(twins, 2), "two columns");
    refuse(&f, with_columns(twins, 0), "1 to 64");
    refuse(&f, with_columns(twins, 65), "1 to 64");
    refuse(&f, with_columns(empty, 1), "column name");
    refuse(&f, with_columns(odd, 1), "column name");
    refuse(&f, with_columns(strange, 1), "no such type");
    folder_remove(&f);
}

static void no_folder(void **state)
{
    struct pb_err err = {0};
    struct pb_ring *w;

    (void)state;
    assert_int_equal(pb_ring_create(&w, -1, &all_types, NULL, &err), -1);
    assert_non_null(strstr(err.msg, "table test.all_types: make its file: "));
}

/* What docs/store-format.md promises about the file. */
static void layout(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_ring_column columns[C_COUNT];
    struct pb_ring_head h;
    struct stat st;
    int fd = openat(f.fd, "test.all_types.0.ring", O_RDONLY);

    (void)state;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(pread(fd, &h, sizeof h, 0), sizeof h);
    assert_memory_equal(h.magic, "PBRING\r\n", 8);
    assert_int_equal(h.file_size, st.st_size);
    assert_int_equal(h.file_size, pb_ring_bytes(w));
    assert_int_equal(h.file_size, pb_ring_wants(&all_types));
    assert_int_equal(st.st_size, (off_t)st.st_blocks * 512); /* no holes */
    assert_int_equal(h.capacity, 128);
    assert_int_equal(h.dict_size, 64 * 1024);
    assert_int_equal(h.heap_size, 256 * 1024);
    assert_int_equal(pread(fd, columns, sizeof columns, (off_t)h.columns_at), sizeof columns);
    for (size_t i = 0; i < C_COUNT; i++) {
        assert_string_equal(columns[i].name, all_columns[i].name);
        assert_int_equal(columns[i].type, all_columns[i].type);
        assert_int_equal(columns[i].at % 64, 0);
        assert_true(columns[i].at >= h.sequence_at + h.capacity * 8);
        if (i > 0)
            assert_true(columns[i].at >= columns[i - 1].at + h.capacity * columns[i - 1].width);
    }
    assert_true(h.dict_at >= columns[C_TEXT].at + h.capacity * 8);
    assert_true(h.heap_at >= h.dict_at + h.dict_size);
    close(fd);
    pb_ring_close(w);
    pb_ring_close(NULL);
    folder_remove(&f);
}

static void no_dictionary(void **state)
{
    struct folder f = folder_make();
    struct pb_ring_spec spec = with_columns(all_columns, C_BOOL);
    struct pb_ring *w = ring_make(&f, &spec);

    (void)state;
    assert_true(pb_ring_bytes(w) < 16 * 1024);
    assert_int_equal(pb_ring_name(w, "x", 1), PB_NULL_NAME);
    pb_ring_close(w);
    folder_remove(&f);
}

static void generations(void **state)
{
    struct folder f = folder_make();
    struct pb_err err = {0};
    struct pb_reader r;

    (void)state;
    for (int i = 0; i < 20; i++)
        pb_ring_close(ring_make(&f, &all_types));
    assert_int_equal(folder_files(&f, NULL), 8);
    r = reader_open(&f, "test.all_types.19.ring");
    assert_int_equal(r.generation, 19);
    pb_reader_close(&r);
    r = reader_open(&f, "test.all_types.12.ring");
    pb_reader_close(&r);
    assert_int_equal(pb_reader_open(&r, f.fd, "test.all_types.11.ring", &err), -1);
    /* Another table has its own; one that was left half made keeps its number. */
    close(openat(f.fd, ".test.all.3.ring", O_CREAT | O_WRONLY, 0600));
    close(openat(f.fd, "test.all.x.ring", O_CREAT | O_WRONLY, 0600));
    pb_ring_close(
        ring_make(&f, &(struct pb_ring_spec){
                          .name = "test.all", .doc = "", .columns = all_columns, .ncolumns = 2}));
    r = reader_open(&f, "test.all.4.ring");
    assert_int_equal(r.capacity, 64);
    pb_reader_close(&r);
    folder_remove(&f);
}

static void append_int(struct pb_ring *w, int64_t number)
{
    union pb_cell cells[C_COUNT] = {{.i = 1}, {.i = number}, {.d = 0},
                                    {.b = 0}, {.name = 0},   {.text = {"x", 1}}};

    pb_ring_append(w, cells);
}

static void retire(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    uint64_t first, next, rows[8];

    (void)state;
    append_int(w, 1);
    append_int(w, 2);
    pb_ring_retire(w);
    assert_true(pb_reader_closed(&r));
    append_int(w, 3);
    assert_int_equal(pb_ring_name(w, "x", 1), PB_NULL_NAME);
    pb_reader_range(&r, &first, &next);
    assert_int_equal(next, 2);
    assert_int_equal(pb_ring_rows(w), 2);
    assert_int_equal(pb_reader_copy(&r, 0, 8, NULL, 0, NULL, rows, NULL), 2);
    pb_ring_retire(w);
    pb_ring_close(w);
    pb_reader_close(&r);
    folder_remove(&f);
}

/* The child's appends reach nobody, the parent's go on. */
static void abandon(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    uint64_t first, next;
    int status;
    pid_t pid;

    (void)state;
    append_int(w, 1);
    pid = fork();
    if (pid == 0) {
        pb_ring_abandon(w);
        append_int(w, 2);
        pb_ring_close(w);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(pb_reader_closed(&r));
    append_int(w, 3);
    pb_reader_range(&r, &first, &next);
    assert_int_equal(next, 2);
    pb_ring_close(w);
    pb_reader_close(&r);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_specs),     cmocka_unit_test(no_folder),   cmocka_unit_test(layout),
        cmocka_unit_test(no_dictionary), cmocka_unit_test(generations), cmocka_unit_test(retire),
        cmocka_unit_test(abandon),
    };

    return RUN_TESTS(tests);
}
