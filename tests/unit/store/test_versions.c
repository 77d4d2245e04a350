/*
 * Files that this writer would not write: of a later minor version, of another major one, broken,
 * cut off. What can be read is, the rest is refused with a reason.
 */
#include "store/ring_folder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { NEW_HEAD = 640, NEW_COLUMN = 256, ROWS = 64 };

/*
 * A ring of some later minor version, made by hand: head and columns have grown, and the second
 * column is of a type that we have never heard of.
 */
struct later {
    struct pb_ring_head head;
    char more_head[NEW_HEAD - sizeof(struct pb_ring_head)];
    struct {
        struct pb_ring_column column;
        char more[NEW_COLUMN - sizeof(struct pb_ring_column)];
    } columns[3];
    uint64_t sequence[ROWS];
    int64_t number[ROWS];
    char unknown[ROWS][16];
    double ratio[ROWS];
};

static void column(struct later *l, int i, const char *name, uint32_t type, uint32_t width,
                   size_t at)
{
    struct pb_ring_column *c = &l->columns[i].column;

    strcpy(c->name, name);
    c->type = type;
    c->width = width;
    c->at = at;
    memset(l->columns[i].more, 'm', sizeof l->columns[i].more);
}

static struct later *later_make(void)
{
    struct later *l = aligned_alloc(64, (sizeof *l + 63) / 64 * 64);

    memset(l, 0, sizeof *l);
    memset(l->more_head, 'h', sizeof l->more_head);
    memcpy(l->head.magic, PB_RING_MAGIC, 8);
    l->head.major = PB_RING_MAJOR;
    l->head.minor = PB_RING_MINOR + 7;
    l->head.head_size = NEW_HEAD;
    l->head.column_size = NEW_COLUMN;
    l->head.ncolumns = 3;
    l->head.capacity = ROWS;
    l->head.file_size = sizeof *l;
    l->head.columns_at = offsetof(struct later, columns);
    l->head.sequence_at = offsetof(struct later, sequence);
    l->head.flags = 0xff00;
    strcpy(l->head.name, "test.later");
    l->head.next = 2;
    column(l, 0, "number", PB_INT, 8, offsetof(struct later, number));
    column(l, 1, "unknown", 99, 16, offsetof(struct later, unknown));
    column(l, 2, "ratio", PB_REAL, 8, offsetof(struct later, ratio));
    for (int i = 0; i < 2; i++) {
        l->sequence[i] = PB_SEQ_DONE(i);
        l->number[i] = 40 + i;
        l->ratio[i] = i + 0.25;
    }
    return l;
}

static void save(const struct folder *f, const void *bytes, size_t size)
{
    int fd = openat(f->fd, "x.ring", O_CREAT | O_TRUNC | O_WRONLY, 0600);

    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void later_minor(void **state)
{
    struct folder f = folder_make();
    struct later *l = later_make();
    const size_t wanted[] = {1, 0};
    double ratio[4];
    int64_t number[4];
    void *out[] = {ratio, number};
    uint64_t rows[4], waiting;
    struct pb_reader r;

    (void)state;
    save(&f, l, sizeof *l);
    r = reader_open(&f, "x.ring");
    assert_int_equal(r.ncolumns, 2);
    assert_string_equal(r.columns[1].name, "ratio");
    assert_int_equal(pb_reader_copy(&r, 0, 4, wanted, 2, out, rows, &waiting), 2);
    assert_int_equal(number[1], 41);
    assert_true(ratio[1] == 1.25);
    assert_int_equal(waiting, 2);
    pb_reader_close(&r);
    free(l);
    folder_remove(&f);
}

/* Changes one thing; the file must be refused with these words. */
#define REFUSE(words, change)                                                                      \
    do {                                                                                           \
        struct later *l = later_make();                                                            \
        change;                                                                                    \
        refuse(&f, l, words);                                                                      \
    } while (0)

static void refuse(const struct folder *f, struct later *l, const char *words)
{
    struct pb_err err = {0};
    struct pb_reader r;

    save(f, l, sizeof *l);
    assert_int_equal(pb_reader_open(&r, f->fd, "x.ring", &err), -1);
    if (!strstr(err.msg, words) || strncmp(err.msg, "x.ring: ", 8) != 0)
        fail_msg("'%s' does not say '%s'", err.msg, words);
    pb_reader_close(&r); /* does nothing */
    free(l);
}

static void broken(void **state)
{
    struct folder f = folder_make();

    (void)state;
    REFUSE("does not start", l->head.magic[3]++);
    REFUSE("version 2 of the format", l->head.major = 2);
    REFUSE("size of its head", l->head.head_size = 100);
    REFUSE("size of its head", l->head.column_size = 191);
    REFUSE("shorter", l->head.file_size++);
    REFUSE("shorter", l->head.file_size = UINT64_MAX);
    REFUSE("bad columns", l->head.ncolumns = 0);
    REFUSE("bad columns", l->head.ncolumns = UINT32_MAX);
    REFUSE("bad columns", l->head.columns_at = UINT64_MAX - 7);
    REFUSE("bad columns", l->head.columns_at = 8);
    REFUSE("number of rows", l->head.capacity = 0);
    REFUSE("number of rows", l->head.capacity = 48);
    REFUSE("number of rows", l->head.capacity = UINT64_C(1) << 61);
    REFUSE("number of rows", l->head.sequence_at += 1);
    REFUSE("number of rows", l->head.sequence_at = sizeof *l);
    REFUSE("dictionary", l->head.dict_size = UINT64_MAX);
    REFUSE("dictionary", l->head.dict_size = 8);
    REFUSE("heap", (l->head.heap_size = 24, l->head.heap_at = 512));
    REFUSE("heap", (l->head.heap_size = 1 << 20, l->head.heap_at = 512));
    REFUSE("name of its table", l->head.name[0] = '\0');
    REFUSE("name of its table", l->head.name[4] = '/');
    REFUSE("name of its table", memset(l->head.name, 'a', sizeof l->head.name));
    REFUSE("no column", (l->columns[0].column.type = 0, l->columns[2].column.at = 1 << 20));
    folder_remove(&f);
}

/* A column that makes no sense goes alone. */
static void odd_columns(void **state)
{
    struct folder f = folder_make();
    struct later *l = later_make();
    struct pb_reader r;

    (void)state;
    strcpy(l->columns[2].column.name, "NUMBER");
    strcpy(l->columns[0].column.unit, "m\x01");
    memset(l->columns[0].column.doc, 0xc3, sizeof l->columns[0].column.doc);
    save(&f, l, sizeof *l);
    r = reader_open(&f, "x.ring");
    assert_int_equal(r.ncolumns, 1);
    assert_string_equal(r.columns[0].name, "number");
    assert_string_equal(r.columns[0].unit, "m?");
    assert_int_equal(strspn(r.columns[0].doc, "?"), PB_RING_COLUMN_DOC - 1);
    pb_reader_close(&r);
    free(l);
    folder_remove(&f);
}

static void not_a_file(void **state)
{
    struct folder f = folder_make();
    struct pb_err err = {0};
    struct pb_reader r;

    (void)state;
    assert_int_equal(mkfifoat(f.fd, "pipe", 0600), 0);
    assert_int_equal(symlinkat("x.ring", f.fd, "link"), 0);
    save(&f, "", 0);
    assert_int_equal(pb_reader_open(&r, f.fd, "pipe", &err), -1);
    assert_string_equal(err.msg, "pipe: not a ring: not a file");
    err.code = PB_OK;
    assert_int_equal(pb_reader_open(&r, f.fd, "x.ring", &err), -1);
    assert_string_equal(err.msg, "x.ring: not a ring: too short");
    assert_int_equal(pb_reader_open(&r, f.fd, "link", &err), -1);
    assert_int_equal(pb_reader_open(&r, f.fd, "nothing", &err), -1);
    folder_remove(&f);
}

/* A file that was cut off under the reader: nothing is there any more, and nothing crashes. */
static void shrunk(void **state)
{
    struct folder f = folder_make();
    struct later *l = later_make();
    uint64_t first, next, rows[4], waiting = 0;
    struct pb_reader r;

    (void)state;
    save(&f, l, sizeof *l);
    r = reader_open(&f, "x.ring");
    assert_int_equal(pb_reader_copy(&r, 0, 4, NULL, 0, NULL, rows, NULL), 2);
    save(&f, l, 0);
    pb_reader_range(&r, &first, &next);
    assert_int_equal(next, 0);
    assert_int_equal(pb_reader_copy(&r, 0, 4, NULL, 0, NULL, rows, &waiting), 0);
    assert_true(waiting == UINT64_MAX);
    assert_true(pb_reader_closed(&r));
    assert_int_equal(pb_reader_dropped(&r), 0);
    assert_int_equal(pb_reader_unnamed(&r), 0);
    pb_reader_names(&r, NULL, NULL);
    pb_reader_close(&r);
    free(l);
    folder_remove(&f);
}

/* Its owner cuts it off and puts it back while it is being read. */
struct cutter {
    int fd;
    off_t size;
    _Atomic bool done;
};

static void *cut_on(void *arg)
{
    struct cutter *c = arg;

    while (!c->done)
        if (ftruncate(c->fd, 512) < 0 || ftruncate(c->fd, c->size) < 0)
            break;
    return NULL;
}

static void cut_while_read(void **state)
{
    enum { MANY = 1 << 16 };
    static const struct pb_column_spec columns[] = {{"a", PB_INT, "", ""}, {"b", PB_TEXT, "", ""}};
    struct pb_ring_spec spec = {.name = "test.cut", .doc = "", .columns = columns, .ncolumns = 2,
                                .rows = MANY};
    struct folder f = folder_make();
    size_t wanted[] = {0, 1};
    uint64_t *rows = malloc(MANY * 8), first, next;
    void *out[] = {malloc(MANY * 8), malloc(MANY * 8)};
    struct cutter c = {0};
    struct pb_reader r;
    struct pb_ring *w;
    pthread_t thread;
    char buf[64];

    (void)state;
    assert_int_equal(pb_ring_create(&w, f.fd, &spec, NULL, NULL), 0);
    for (int i = 0; i < MANY; i++)
        pb_ring_append(w, (union pb_cell[]){{.i = i}, {.text = {"text", 4}}});
    pb_ring_close(w);
    r = reader_open(&f, "test.cut.0.ring");
    c.fd = openat(f.fd, "test.cut.0.ring", O_RDWR);
    c.size = (off_t)r.size;
    assert_int_equal(pthread_create(&thread, NULL, cut_on, &c), 0);
    for (int i = 0; i < 300; i++) {
        pb_reader_range(&r, &first, &next);
        pb_reader_copy(&r, 0, MANY, wanted, 2, out, rows, NULL);
        pb_reader_text(&r, ((uint64_t *)out[1])[0], buf, sizeof buf);
    }
    c.done = true;
    pthread_join(thread, NULL);
    close(c.fd);
    pb_reader_close(&r);
    free(out[0]);
    free(out[1]);
    free(rows);
    folder_remove(&f);
}

/* A ring of a billion rows that takes no room: what was never written is passed over. */
static void sparse(void **state)
{
    enum { PAGE = 65536, SLOT = 3 << 20 };
    const uint64_t capacity = UINT64_C(1) << 30;
    struct folder f = folder_make();
    struct later *l = later_make();
    uint64_t done = PB_SEQ_DONE(SLOT), at;
    struct pb_reader r;
    int fd;

    (void)state;
    l->head.capacity = capacity;
    l->head.sequence_at = 8192;
    l->head.file_size = 8192 + 6 * capacity * 8;
    for (size_t i = 0; i < l->head.ncolumns; i++)
        l->columns[i].column.at = 8192 + (i + 1) * capacity * 8;
    l->head.dict_size = l->head.heap_size = 0;
    save(&f, l, sizeof *l);
    fd = openat(f.fd, "x.ring", O_RDWR);
    if (ftruncate(fd, (off_t)l->head.file_size) < 0)
        skip();
    assert_int_equal(pwrite(fd, &done, 8, (off_t)(8192 + SLOT * 8)), 8);
    r = reader_open(&f, "x.ring");
    at = pb_reader_skip(&r, 0, capacity);
    assert_true(at <= SLOT && SLOT - at < PAGE / 8);
    assert_true(pb_reader_skip(&r, SLOT + PAGE, capacity) == capacity);
    assert_true(pb_reader_skip(&r, 7, 9) == 9);
    close(fd);
    pb_reader_close(&r);
    free(l);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_minor), cmocka_unit_test(broken), cmocka_unit_test(odd_columns),
        cmocka_unit_test(not_a_file),  cmocka_unit_test(shrunk),
        cmocka_unit_test(cut_while_read), cmocka_unit_test(sparse),
    };

    return RUN_TESTS(tests);
}
