/* What is written is what is read: types, NULLs, going round, losses, names and texts. */
#include "store/ring_folder.h"

#include <math.h>

#include "store/text.h"

struct row {
    int64_t time, number;
    double ratio;
    uint8_t flag;
    uint32_t word;
    uint64_t line, at;
};

static const size_t every_column[C_COUNT] = {0, 1, 2, 3, 4, 5};

/* One row by its number; false when it is not there. */
static bool read_row(const struct pb_reader *r, uint64_t number, struct row *ret)
{
    void *out[C_COUNT] = {&ret->time, &ret->number, &ret->ratio,
                          &ret->flag, &ret->word,   &ret->line};

    return pb_reader_copy(r, number, 1, every_column, C_COUNT, out, &ret->at, NULL) == 1;
}

static void append(struct pb_ring *r, int64_t number, const char *word, const char *line)
{
    union pb_cell cells[C_COUNT] = {
        {.i = number * 10},
        {.i = number},
        {.d = (double)number / 2},
        {.b = number % 2 != 0},
        {.name = pb_ring_name(r, word, strlen(word))},
        {.text = {line, strlen(line)}},
    };

    pb_ring_append(r, cells);
}

static void assert_line(const struct pb_reader *r, uint64_t line, const char *wanted)
{
    char buf[4096];
    long len = pb_reader_text(r, line, buf, sizeof buf);

    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(buf, wanted, (size_t)len);
}

static void assert_word(const struct pb_reader *r, uint32_t word, const char *wanted)
{
    char buf[4096];
    long len = pb_reader_name(r, word, buf, sizeof buf);

    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(buf, wanted, (size_t)len);
}

static void round_trip(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    struct row row;
    uint64_t first, next;

    (void)state;
    assert_string_equal(r.name, "test.all_types");
    assert_string_equal(r.doc, "One column of each type");
    assert_int_equal(r.ncolumns, C_COUNT);
    assert_int_equal(r.capacity, 128);
    assert_string_equal(r.columns[C_REAL].name, "ratio");
    assert_string_equal(r.columns[C_REAL].unit, "ms");
    assert_string_equal(r.columns[C_TEXT].doc, "does not repeat");
    assert_false(read_row(&r, 0, &row));
    append(w, 7, "Müller", "a line of text");
    append(w, -8, "", "");
    pb_reader_range(&r, &first, &next);
    assert_int_equal(first, 0);
    assert_int_equal(next, 2);
    assert_true(read_row(&r, 0, &row));
    assert_int_equal(row.time, 70);
    assert_int_equal(row.number, 7);
    assert_true(row.ratio == 3.5);
    assert_int_equal(row.flag, 1);
    assert_word(&r, row.word, "Müller");
    assert_line(&r, row.line, "a line of text");
    assert_true(read_row(&r, 1, &row));
    assert_int_equal(row.number, -8);
    assert_word(&r, row.word, "");
    assert_line(&r, row.line, "");
    assert_false(pb_reader_closed(&r));
    pb_ring_close(w);
    assert_true(pb_reader_closed(&r));
    assert_true(read_row(&r, 0, &row)); /* the writer is gone, the rows are not */
    pb_reader_close(&r);
    folder_remove(&f);
}

static void nulls(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    union pb_cell cells[C_COUNT] = {
        {.i = PB_NULL_INT},  {.i = PB_NULL_INT},     {.d = pb_null_real()},
        {.b = PB_NULL_BOOL}, {.name = PB_NULL_NAME}, {.text = {NULL, 0}},
    };
    struct row row;
    uint64_t bits;

    (void)state;
    pb_ring_append(w, cells);
    assert_true(read_row(&r, 0, &row));
    assert_true(row.time == PB_NULL_INT && row.number == PB_NULL_INT);
    memcpy(&bits, &row.ratio, sizeof bits);
    assert_true(bits == PB_NULL_REAL_BITS);
    assert_int_equal(row.flag, PB_NULL_BOOL);
    assert_int_equal(pb_reader_name(&r, row.word, NULL, 0), -1);
    assert_int_equal(pb_reader_text(&r, row.line, NULL, 0), -1);
    cells[C_REAL].d = NAN; /* a number that is none is not NULL */
    cells[C_BOOL].b = 17;
    cells[C_TEXT].text.s = "there";
    cells[C_TEXT].text.len = SIZE_MAX;
    pb_ring_append(w, cells);
    assert_true(read_row(&r, 1, &row));
    memcpy(&bits, &row.ratio, sizeof bits);
    assert_true(isnan(row.ratio) && bits != PB_NULL_REAL_BITS);
    assert_int_equal(row.flag, 1);
    assert_int_equal(row.line, PB_NULL_TEXT);
    assert_int_equal(pb_ring_name(w, NULL, 0), PB_NULL_NAME);
    assert_int_equal(pb_reader_unnamed(&r), 0);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

static void goes_round(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    int64_t numbers[300];
    void *out[] = {numbers};
    uint64_t rows[300], first, next, waiting;
    size_t column = C_INT;

    (void)state;
    for (int64_t i = 0; i < 1000; i++)
        append(w, i, "w", "l");
    pb_reader_range(&r, &first, &next);
    assert_int_equal(first, 1000 - 128);
    assert_int_equal(next, 1000);
    assert_int_equal(pb_ring_rows(w), 1000);
    /* From before the first to behind the last, over the end of the slots. */
    assert_int_equal(pb_reader_copy(&r, 800, 300, &column, 1, out, rows, &waiting), 128);
    for (size_t i = 0; i < 128; i++) {
        assert_int_equal(rows[i], 872 + i);
        assert_int_equal(numbers[i], 872 + i);
    }
    assert_int_equal(waiting, 1000);
    assert_int_equal(pb_reader_copy(&r, 900, 50, &column, 1, out, rows, &waiting), 50);
    assert_true(waiting == UINT64_MAX);
    assert_int_equal(pb_reader_copy(&r, 900, 50, NULL, 0, NULL, rows, NULL), 50);
    assert_int_equal(pb_reader_dropped(&r), 0);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

/* A slot that its writer never finished: rows that meet it are dropped and counted, others not. */
static void busy_slot(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    uint64_t stuck = PB_SEQ_BUSY(5), done = PB_SEQ_DONE(5), rows[256], waiting;
    int fd = openat(f.fd, "test.all_types.0.ring", O_RDWR);

    (void)state;
    for (int64_t i = 0; i < 100; i++)
        append(w, i, "w", "l");
    assert_int_equal(pwrite(fd, &stuck, 8, (off_t)(r.sequence_at + 5 * 8)), 8);
    assert_int_equal(pb_reader_copy(&r, 0, 100, NULL, 0, NULL, rows, &waiting), 99);
    assert_int_equal(rows[5], 6);
    assert_int_equal(waiting, 5);
    for (int64_t i = 100; i < 256; i++)
        append(w, i, "w", "l");
    assert_int_equal(pb_reader_dropped(&r), 1);
    assert_int_equal(pb_reader_copy(&r, 128, 128, NULL, 0, NULL, rows, &waiting), 127);
    assert_int_equal(waiting, 133);
    /* It ends after all; the row after the dropped one finds an older word than it expects. */
    assert_int_equal(pwrite(fd, &done, 8, (off_t)(r.sequence_at + 5 * 8)), 8);
    for (int64_t i = 256; i < 384; i++)
        append(w, i, "w", "l");
    assert_int_equal(pb_reader_copy(&r, 256, 128, NULL, 0, NULL, rows, NULL), 128);
    assert_int_equal(pb_reader_dropped(&r), 1);
    close(fd);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

static void count_names(uint32_t name, const char *s, size_t len, void *arg)
{
    char wanted[32];
    int *n = arg;

    assert_true(name != PB_NULL_NAME);
    assert_int_equal(len, snprintf(wanted, sizeof wanted, "name number %d", *n));
    assert_memory_equal(s, wanted, len);
    ++*n;
}

static void dictionary_full(void **state)
{
    struct pb_ring_spec spec = all_types;
    struct folder f = folder_make();
    uint32_t names[1000];
    struct pb_ring *w;
    struct pb_reader r;
    int fit = 0, listed = 0;

    (void)state;
    spec.dict_bytes = 4096;
    w = ring_make(&f, &spec);
    r = reader_open(&f, "test.all_types.0.ring");
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1000; i++) {
            char s[32];
            size_t len = (size_t)snprintf(s, sizeof s, "name number %d", i);
            uint32_t name = pb_ring_name(w, s, len);

            if (round == 1)
                assert_int_equal(name, names[i]);
            names[i] = name;
            fit += round == 0 && name != PB_NULL_NAME;
        }
    assert_int_equal(fit, 170); /* 4096 bytes: 24 for each of them */
    assert_int_equal(pb_reader_unnamed(&r), 2 * (1000 - fit));
    pb_reader_names(&r, count_names, &listed);
    assert_int_equal(listed, fit);
    assert_int_equal(pb_reader_name(&r, names[169] + 3, NULL, 0), -1);
    assert_int_equal(pb_reader_name(&r, UINT32_MAX, NULL, 0), -1);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

/* Entries whose writer was killed: before it had stored the length, and before the hash. */
static void half_names(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    uint32_t hash = 0, names[3];
    uint64_t none = 0;
    int fd = openat(f.fd, "test.all_types.0.ring", O_RDWR), listed = 2;

    (void)state;
    names[0] = pb_ring_name(w, "ab", 2);
    names[1] = pb_ring_name(w, "a longer name", 13);
    names[2] = pb_ring_name(w, "name number 2", 13);
    assert_int_equal(pwrite(fd, &none, 8, (off_t)r.dict_at), 8);
    assert_int_equal(pwrite(fd, &none, 8, (off_t)r.dict_at + 8), 8);
    assert_int_equal(pwrite(fd, &hash, 4, (off_t)r.dict_at + 16), 4);
    assert_int_equal(pb_reader_name(&r, names[0], NULL, 0), -1);
    assert_int_equal(pb_reader_name(&r, names[1], NULL, 0), -1);
    assert_word(&r, names[2], "name number 2");
    pb_reader_names(&r, count_names, &listed);
    assert_int_equal(listed, 3);
    close(fd);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

static void long_names(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    static char s[3000], buf[3000];
    uint32_t name;

    (void)state;
    s[0] = 'x'; /* characters start at odd places */
    for (size_t i = 1; i + 1 < sizeof s; i += 2)
        memcpy(s + i, "ü", 2);
    name = pb_ring_name(w, s, sizeof s - 1);
    assert_int_equal(name, pb_ring_name(w, s, sizeof s - 1));
    assert_int_equal(pb_reader_name(&r, name, buf, sizeof buf), 1023); /* not within a character */
    assert_int_equal(pb_reader_name(&r, name, buf, 100), 99);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

/* Texts that were overwritten are gone, never wrong; those that are there are whole. */
static void heap_goes_round(void **state)
{
    struct pb_ring_spec spec = all_types;
    struct folder f = folder_make();
    struct pb_ring *w;
    struct pb_reader r;
    size_t there = 0;
    struct row row;

    (void)state;
    spec.heap_bytes = 4096;
    w = ring_make(&f, &spec);
    r = reader_open(&f, "test.all_types.0.ring");
    for (int i = 0; i < 1000; i++) {
        char line[160];
        int len = snprintf(line, 32, "line %d", i);

        memset(line + len, '-', (size_t)(i % 100));
        line[len + i % 100] = '\0';
        append(w, i, "w", line);
    }
    for (int i = 1000 - 128; i < 1000; i++) {
        char buf[128], wanted[32];
        long len;

        assert_true(read_row(&r, (uint64_t)i, &row));
        len = pb_reader_text(&r, row.line, buf, sizeof buf - 1);
        if (len < 0)
            continue;
        buf[len] = '\0';
        there++;
        snprintf(wanted, sizeof wanted, "line %d", i);
        assert_int_equal(strncmp(buf, wanted, strlen(wanted)), 0);
        assert_int_equal((size_t)len, strlen(wanted) + (size_t)(i % 100));
    }
    assert_in_range(there, 30, 100);
    assert_int_equal(pb_reader_text(&r, row.line + 1, NULL, 0), -1);
    assert_int_equal(pb_reader_text(&r, row.line + 4096, NULL, 0), -1);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

/* Two writers that were a whole circle apart wrote to the same bytes: the hash does not fit. */
static void mixed_text(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    int fd = openat(f.fd, "test.all_types.0.ring", O_RDWR);
    struct row row;
    char buf[32];

    (void)state;
    append(w, 0, "w", "a line of text");
    assert_true(read_row(&r, 0, &row));
    assert_line(&r, row.line, "a line of text");
    assert_int_equal(pwrite(fd, "A", 1, (off_t)(r.heap_at + row.line - 1 + 8)), 1);
    assert_int_equal(pb_reader_text(&r, row.line, buf, sizeof buf), -1);
    close(fd);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

/* A writer that was overtaken completes its own entry over a newer one of the same length. */
static void overtaken_text(void **state)
{
    struct pb_ring_spec spec = all_types;
    struct folder f = folder_make();
    struct pb_ring *w;
    struct pb_reader r;
    struct row row, old;
    char entry[16], buf[16];
    int fd;

    (void)state;
    spec.heap_bytes = 4096;
    w = ring_make(&f, &spec);
    r = reader_open(&f, "test.all_types.0.ring");
    fd = openat(f.fd, "test.all_types.0.ring", O_RDWR);
    append(w, 0, "w", "text 000");
    assert_true(read_row(&r, 0, &old));
    assert_int_equal(pread(fd, entry, sizeof entry, (off_t)(r.heap_at + old.line - 1)), 16);
    for (int i = 1; i <= 4096 / 16; i++) {
        char text[20];

        snprintf(text, sizeof text, "text %03d", i);
        append(w, i, "w", text);
    }
    assert_true(read_row(&r, 4096 / 16, &row));
    assert_int_equal(row.line - old.line, 4096);
    assert_line(&r, row.line, "text 256");
    assert_int_equal(pwrite(fd, entry, sizeof entry, (off_t)(r.heap_at + old.line - 1)), 16);
    assert_int_equal(pb_reader_text(&r, row.line, buf, sizeof buf), -1);
    close(fd);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

static void long_texts(void **state)
{
    struct pb_ring_spec spec = all_types;
    struct folder f = folder_make();
    static char line[5000], buf[5000];
    struct pb_ring *w;
    struct pb_reader r;
    struct row row;

    (void)state;
    spec.heap_bytes = 4096;
    w = ring_make(&f, &spec);
    r = reader_open(&f, "test.all_types.0.ring");
    for (size_t i = 0; i + 3 <= sizeof line; i += 3)
        memcpy(line + i, "€", 3);
    line[sizeof line - 1] = line[sizeof line - 2] = '\0';
    append(w, 0, "w", line);
    assert_true(read_row(&r, 0, &row));
    /* A quarter of the heap at most, and then what the caller has room for. */
    assert_int_equal(pb_reader_text(&r, row.line, buf, sizeof buf), 1023);
    assert_int_equal(pb_reader_text(&r, row.line, buf, 100), 99);
    assert_int_equal(pb_reader_text(&r, row.line, buf, 2), 0);
    assert_int_equal(pb_reader_text(&r, row.line, buf, 0), 0);
    append(w, 1, "w", "\xff\xc3 ok \xed\xa0\x80\xe2\x82");
    assert_true(read_row(&r, 1, &row));
    assert_line(&r, row.line, "\xff\xc3 ok \xed\xa0\x80\xe2\x82"); /* whoever shows it sees to it */
    assert_int_equal(pb_reader_valid("ok \xe2\x82\xac \xed\xa0\x80", 10), 7);
    strcpy(buf, "\xff\xc3 ok \xed\xa0\x80\xe2\x82");
    assert_int_equal(pb_reader_clean(buf, strlen(buf), false), strlen(buf));
    assert_string_equal(buf, "?? ok ?????");
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),      cmocka_unit_test(nulls),
        cmocka_unit_test(goes_round),      cmocka_unit_test(busy_slot),
        cmocka_unit_test(dictionary_full), cmocka_unit_test(long_names),
        cmocka_unit_test(half_names),      cmocka_unit_test(heap_goes_round),
        cmocka_unit_test(mixed_text),      cmocka_unit_test(overtaken_text),
        cmocka_unit_test(long_texts),
    };

    return RUN_TESTS(tests);
}
