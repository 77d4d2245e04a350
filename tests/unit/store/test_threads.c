/*
 * Eight threads write and two read, in a ring so small that it goes round all the time; and a
 * signal handler writes while the thread that it interrupts is in the midst of an append. Every
 * cell is a function of one number: a row made of two would be seen.
 */
#include "store/ring_folder.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

enum { WRITERS = 8, READERS = 2, EACH = 40000, PIECE = 200, WORDS = 50 };

static const size_t every_column[C_COUNT] = {0, 1, 2, 3, 4, 5};

struct shared {
    struct pb_ring *ring;
    struct pb_reader reader;
    _Atomic int done;
    _Atomic uint64_t read, texts, torn;
};

static void append(struct pb_ring *r, int64_t x)
{
    char s[48];
    int len = snprintf(s, sizeof s, "%d:%lld", (int)(x % WORDS), (long long)x);
    size_t word = (size_t)(strchr(s, ':') - s);
    union pb_cell cells[C_COUNT] = {
        {.i = x * 3},
        {.i = x},
        {.d = (double)x / 4},
        {.b = x & 1},
        {.name = pb_ring_name(r, s, word)},
        {.text = {s, (size_t)len}},
    };

    pb_ring_append(r, cells);
}

struct rows {
    int64_t time[PIECE], number[PIECE];
    double ratio[PIECE];
    uint8_t flag[PIECE];
    uint32_t word[PIECE];
    uint64_t line[PIECE], at[PIECE];
};

/* Is the i-th row of one piece? Counts texts that are still there. */
static bool is_whole(const struct pb_reader *r, const struct rows *rows, size_t i, uint64_t *texts)
{
    int64_t x = rows->number[i];
    char wanted[48], buf[48], name[48];
    size_t word = (size_t)snprintf(wanted, sizeof wanted, "%d", (int)(x % WORDS));
    long len = pb_reader_name(r, rows->word[i], name, sizeof name);
    long got = pb_reader_text(r, rows->line[i], buf, sizeof buf);

    if (rows->time[i] != x * 3 || rows->ratio[i] != (double)x / 4 || rows->flag[i] != (x & 1) ||
        len != (long)word || memcmp(name, wanted, word) != 0)
        return false;
    if (got < 0)
        return true;
    ++*texts;
    snprintf(wanted + word, sizeof wanted - word, ":%lld", (long long)x);
    return (size_t)got == strlen(wanted) && memcmp(buf, wanted, (size_t)got) == 0;
}

static void *read_on(void *arg)
{
    struct rows *rows = malloc(sizeof *rows);
    struct shared *s = arg;
    void *const out[] = {rows->time, rows->number, rows->ratio, rows->flag, rows->word, rows->line};
    uint64_t first, next, texts = 0;

    while (!atomic_load(&s->done)) {
        pb_reader_range(&s->reader, &first, &next);
        for (uint64_t at = first; at < next; at += PIECE) {
            size_t n =
                pb_reader_copy(&s->reader, at, PIECE, every_column, C_COUNT, out, rows->at, NULL);

            s->read += n;
            for (size_t i = 0; i < n; i++)
                s->torn += !is_whole(&s->reader, rows, i, &texts) ||
                           (i > 0 && rows->at[i] <= rows->at[i - 1]);
        }
    }
    s->texts += texts;
    free(rows);
    return NULL;
}

struct job {
    struct shared *shared;
    int number;
};

static void *write_on(void *arg)
{
    const struct job *job = arg;

    for (int64_t i = 0; i < EACH; i++)
        append(job->shared->ring, i * WRITERS + job->number);
    return NULL;
}

static void many_threads(void **state)
{
    struct pb_ring_spec spec = all_types;
    struct folder f = folder_make();
    struct shared s = {0};
    pthread_t writers[WRITERS], readers[READERS];
    struct job jobs[WRITERS];
    uint64_t first, next;

    (void)state;
    spec.heap_bytes = 4096;
    s.ring = ring_make(&f, &spec);
    s.reader = reader_open(&f, "test.all_types.0.ring");
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, &s), 0);
    for (int i = 0; i < WRITERS; i++) {
        jobs[i] = (struct job){&s, i};
        assert_int_equal(pthread_create(&writers[i], NULL, write_on, &jobs[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    s.done = 1;
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pb_reader_range(&s.reader, &first, &next);
    assert_int_equal(next, WRITERS * EACH);
    assert_int_equal(s.torn, 0);
    assert_true(s.read > 0 && s.texts > 0);
    assert_int_equal(pb_reader_unnamed(&s.reader), 0);
    pb_reader_close(&s.reader);
    pb_ring_close(s.ring);
    folder_remove(&f);
}

/* What a signal handler writes to; it gets no argument. */
static struct {
    struct pb_ring *ring;
    volatile sig_atomic_t calls;
} handler;

static void on_signal(int sig)
{
    (void)sig;
    handler.calls = handler.calls + 1;
    append(handler.ring, handler.calls);
}

static void in_a_signal_handler(void **state)
{
    struct folder f = folder_make();
    struct pb_ring *w = ring_make(&f, &all_types);
    struct pb_reader r = reader_open(&f, "test.all_types.0.ring");
    struct itimerval fast = {{0, 50}, {0, 50}}, off = {0};
    struct rows rows;
    void *const out[] = {rows.time, rows.number, rows.ratio, rows.flag, rows.word, rows.line};
    uint64_t first, next, texts = 0;
    int64_t x;

    (void)state;
    handler.ring = w;
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &fast, NULL);
    for (x = 0; handler.calls < 2000; x++)
        append(w, x);
    setitimer(ITIMER_REAL, &off, NULL);
    pb_reader_range(&r, &first, &next);
    assert_int_equal(next, x + handler.calls);
    /* The thread that was interrupted always came back before the ring had gone round. */
    assert_int_equal(pb_reader_dropped(&r), 0);
    assert_int_equal(pb_reader_copy(&r, first, PIECE, every_column, C_COUNT, out, rows.at, NULL),
                     128);
    for (size_t i = 0; i < 128; i++)
        assert_true(is_whole(&r, &rows, i, &texts));
    assert_int_equal(pb_reader_unnamed(&r), 0);
    pb_reader_close(&r);
    pb_ring_close(w);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads),
        cmocka_unit_test(in_a_signal_handler),
    };

    return RUN_TESTS(tests);
}
