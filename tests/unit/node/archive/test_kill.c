/* A node that seals and merges all the time is killed hundreds of times, wherever it is at. */
#include <signal.h>
#include <sys/wait.h>

#include "node/archive/fake.h"

enum { ROUNDS = 120 };

/* In the child: seals and merges until it is killed. */
static void work(struct fake *f)
{
    fake_open(f);
    atomic_store(&f->archive->delay_ns, 0);
    for (;;) {
        fake_look(f);
        pb_archive_tidy(f->archive);
    }
}

/* What the names of the files say, and that it is true; returns the number behind the last. */
static uint64_t check(struct fake *f, uint64_t at_least)
{
    uint64_t sealed = 0;

    fake_open(f);
    sealed = atomic_load(&f->seen.sealed);
    assert_true(sealed >= at_least);
    assert_int_equal(fake_status(f).lost_rows, 0);
    if (sealed)
        assert_sealed(f, 0, sealed - 1);
    assert_int_equal(lake.hidden, 0);
    pb_archive_close(f->archive);
    f->archive = NULL;
    return sealed;
}

static void killed_anywhere(void **state)
{
    struct fake f;
    uint64_t sealed = 0;

    (void)state;
    srandom(3);
    fake_begin(&f, 8192);
    pb_archive_close(f.archive);
    f.archive = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        useconds_t moment = (useconds_t)(random() % 12000);
        pid_t node = fork();

        if (node == 0)
            work(&f);
        for (useconds_t waited = 0; waited < moment; waited += 300) {
            fake_append(&f, 3);
            usleep(300);
        }
        kill(node, SIGKILL);
        waitpid(node, NULL, 0);
        sealed = check(&f, sealed);
    }
    /* Most rounds got somewhere, and none of what they did was lost. */
    assert_true(sealed > 500);
    fake_open(&f);
    pb_archive_look(f.archive, &f.stores, true);
    assert_sealed(&f, 0, pb_ring_rows(f.ring) - 1);
    fake_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_anywhere),
    };

    return RUN_TESTS(tests);
}
