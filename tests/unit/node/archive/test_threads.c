/* One thread writes rows, one seals, one merges, two ask: every answer has every row once. */
#include <glob.h>
#include <pthread.h>

#include "node/archive/fake.h"

enum { ROWS = 60000, BURST = 40, ROOM = 4096 };

static struct fake fake;
static _Atomic bool done;
static _Atomic int answers;

static void *write_rows(void *arg)
{
    (void)arg;
    while (pb_ring_rows(fake.ring) < ROWS) {
        /* On a busy machine the one that seals may have to wait: what the ring lost it cannot. */
        if (pb_ring_rows(fake.ring) - atomic_load(&fake.seen.sealed) <= ROOM - BURST)
            fake_append(&fake, BURST);
        usleep(500);
    }
    return NULL;
}

static void *seal_rows(void *arg)
{
    (void)arg;
    while (!done) {
        fake_look(&fake);
        usleep(300);
    }
    return NULL;
}

static void *merge_parts(void *arg)
{
    (void)arg;
    while (!done) {
        pb_archive_tidy(fake.archive);
        usleep(500);
    }
    return NULL;
}

static const char *check_files(const glob_t *found, uint64_t sealed, uint64_t *rows,
                               unsigned char *times)
{
    memset(times, 0, ROWS + BURST);
    for (size_t i = 0; i < found->gl_pathc; i++) {
        size_t n;

        if (access(found->gl_pathv[i], R_OK) < 0)
            return "a file went away under a query";
        n = fake_read(found->gl_pathv[i], rows, ROWS + BURST);
        for (size_t k = 0; k < n; k++)
            times[rows[k]]++;
    }
    for (uint64_t i = 0; i < ROWS + BURST; i++) {
        if (i < sealed && times[i] != 1)
            return times[i] ? "a row is in two files" : "a sealed row is in no file";
        if (i >= sealed && times[i])
            return "a row is in the ring and in a file";
    }
    return NULL;
}

static void *ask(void *arg)
{
    uint64_t *rows = malloc((ROWS + BURST) * sizeof *rows);
    unsigned char *times = malloc(ROWS + BURST);
    const char *wrong = NULL;
    (void)arg;

    while (!done && !wrong) {
        struct pb_arena arena = PB_ARENA_INIT;
        struct pb_archive_table *t;
        glob_t found = {0};
        uint64_t sealed;

        pb_archive_begin(fake.archive);
        if (pb_archive_tables(fake.archive, &arena, &t))
            glob(t->glob, 0, NULL, &found);
        sealed = atomic_load(&fake.seen.sealed);
        pb_archive_bound(fake.archive);
        wrong = check_files(&found, sealed, rows, times);
        pb_archive_end(fake.archive);
        globfree(&found);
        pb_arena_finish(&arena);
        answers++;
        usleep(2000); /* an instant without queries, in which parts can be merged */
    }
    free(rows);
    free(times);
    return (void *)wrong;
}

static void every_answer_has_every_row_once(void **state)
{
    void *(*const jobs[])(void *) = {seal_rows, merge_parts, ask, ask};
    pthread_t threads[4], writer;

    (void)state;
    fake_begin(&fake, ROOM);
    atomic_store(&fake.archive->delay_ns, 1000000);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, jobs[i], NULL);
    pthread_create(&writer, NULL, write_rows, NULL);
    pthread_join(writer, NULL);
    done = true;
    for (int i = 0; i < 4; i++) {
        void *wrong;

        pthread_join(threads[i], &wrong);
        if (wrong)
            fail_msg("%s", (const char *)wrong);
    }
    pb_archive_look(fake.archive, &fake.stores, true);
    assert_sealed(&fake, 0, ROWS - 1);
    assert_int_equal(fake_status(&fake).lost_rows, 0);
    assert_true(answers > 20);
    assert_true(fake.merges > 0);
    fake_end(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_has_every_row_once),
    };

    return RUN_TESTS(tests);
}
