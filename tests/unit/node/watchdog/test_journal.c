/* What a server was at when it died is judged by whoever starts it again; its sockets stay. */
#include "pb_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/watchdog/journal.h"
#include "node/watchdog/keeper.h"

static const struct pb_ring_identity ring_a = {1, 10, 100}, ring_b = {1, 11, 100};

/* Inodes of the rings that were found guilty, one after the other. */
static char guilty[64];

static void note_guilty(const struct pb_ring_identity *ring, void *arg)
{
    size_t len = strlen(guilty);

    assert_ptr_equal(arg, guilty);
    snprintf(guilty + len, sizeof guilty - len, "%d ", (int)ring->inode);
}

static int blame(struct pb_journal *j, time_t when, const char *why)
{
    guilty[0] = '\0';
    return pb_journal_blame(j, when, why, note_guilty, guilty);
}

/* A process that is at these, the last one in the thread that dies, and dies. */
static void die_at(struct pb_journal *j, const char *const *texts, bool tells)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        for (; *texts; texts++)
            pb_journal_begin_query(j, *texts);
        if (tells)
            pb_journal_dying(j, NULL);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static bool is_refused(struct pb_journal *j, const char *text)
{
    char why[128];

    return pb_journal_refused(j, text, why, sizeof why);
}

static void the_only_one_is_refused(void **state)
{
    struct pb_journal *j = pb_journal_create();
    char why[128];

    (void)state;
    assert_false(is_refused(j, "a"));
    die_at(j, (const char *[]){"a", NULL}, false);
    assert_int_equal(blame(j, 1000000000, "Bus error"), 1);
    assert_true(is_refused(j, "a"));
    assert_false(is_refused(j, "b"));
    assert_true(pb_journal_refused(j, "a", why, sizeof why));
    assert_non_null(strstr(why, "ended the server at "));
    assert_non_null(strstr(why, "(Bus error)"));
    pb_journal_destroy(j);
}

static void of_several_the_one_that_dies_or_the_second_time(void **state)
{
    struct pb_journal *j = pb_journal_create();

    (void)state;
    die_at(j, (const char *[]){"a", "b", "c", NULL}, true);
    assert_int_equal(blame(j, 1, "x"), 1);
    assert_true(is_refused(j, "c"));
    assert_false(is_refused(j, "a") || is_refused(j, "b"));
    die_at(j, (const char *[]){"a", "b", NULL}, false);
    assert_int_equal(blame(j, 2, "x"), 2);
    assert_false(is_refused(j, "a") || is_refused(j, "b"));
    die_at(j, (const char *[]){"a", "d", NULL}, false);
    assert_int_equal(blame(j, 3, "x"), 2);
    assert_true(is_refused(j, "a"));
    assert_false(is_refused(j, "b") || is_refused(j, "d"));
    pb_journal_destroy(j);
}

enum how { READS_A_RING, READS_WITHOUT_AN_ENTRY, IS_KILLED, IS_KILLED_WITH_TWO };

/* A process that is at a query and reads a ring for it, and dies. */
static void die_reading(struct pb_journal *j, enum how how)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        pb_journal_begin_query(j, "a");
        if (how != READS_WITHOUT_AN_ENTRY)
            pb_journal_begin_ring(j, &ring_a);
        if (how == IS_KILLED_WITH_TWO)
            pb_journal_begin_ring(j, &ring_b);
        if (how < IS_KILLED)
            pb_journal_dying(j, &ring_b);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void a_ring_is_handed_over_and_its_query_is_not_to_blame(void **state)
{
    struct pb_journal *j = pb_journal_create();

    (void)state;
    die_reading(j, READS_A_RING);
    assert_int_equal(blame(j, 1, "x"), 1);
    assert_string_equal(guilty, "10 ");
    die_reading(j, READS_WITHOUT_AN_ENTRY);
    assert_int_equal(blame(j, 1, "x"), 1);
    assert_string_equal(guilty, "11 ");
    assert_false(is_refused(j, "a"));
    pb_journal_destroy(j);
}

static void of_rings_those_that_are_there_the_second_time(void **state)
{
    struct pb_journal *j = pb_journal_create();

    (void)state;
    die_reading(j, IS_KILLED_WITH_TWO);
    assert_int_equal(blame(j, 1, "x"), 3);
    assert_string_equal(guilty, "");
    die_reading(j, IS_KILLED);
    assert_int_equal(blame(j, 1, "x"), 2);
    assert_string_equal(guilty, "10 ");
    pb_journal_destroy(j);
}

static void what_ended_well_is_no_suspect(void **state)
{
    struct pb_journal *j = pb_journal_create();
    int outer, inner;
    char why[64];
    time_t when;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        outer = pb_journal_begin_query(j, "a");
        inner = pb_journal_begin_ring(j, &ring_a);
        assert_true(outer >= 0 && inner >= 0 && inner != outer);
        pb_journal_end(j, inner);
        pb_journal_end(j, outer);
    }
    assert_int_equal(blame(j, 7, "Killed"), 0);
    assert_false(is_refused(j, "a"));
    assert_int_equal(pb_journal_restarts(j, &when, why, sizeof why), 1);
    assert_int_equal(when, 7);
    assert_string_equal(why, "Killed");
    pb_journal_destroy(j);
    /* Without one nothing is noted and nothing refused. */
    pb_journal_end(NULL, pb_journal_begin_query(NULL, "a"));
    assert_false(is_refused(NULL, "a"));
}

static void sockets_outlive_who_opened_them(void **state)
{
    struct pb_keeper *k = pb_keeper_create();
    const void *kept;
    size_t len;
    pid_t pid = fork();
    int status, fd;

    (void)state;
    if (pid == 0) {
        int pair[2];

        if (pipe(pair) < 0 || write(pair[1], "still here", 10) != 10)
            _exit(1);
        pb_keeper_put(k, 3, pair[0], "state", 6);
        pb_keeper_put(k, 4, pair[0], "gone", 5);
        pb_keeper_drop(k, 4);
        pb_keeper_put(k, 1000, pair[0], "", 0);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pb_keeper_pump(k);
    fd = pb_keeper_get(k, 3, &kept, &len);
    assert_true(fd >= 0);
    assert_int_equal(len, 6);
    assert_string_equal(kept, "state");
    assert_int_equal(read(fd, &(char[16]){0}, 16), 10);
    assert_int_equal(pb_keeper_get(k, 4, &kept, &len), -1);
    assert_int_equal(pb_keeper_get(k, 0, &kept, &len), -1);
    pb_keeper_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_one_is_refused),
        cmocka_unit_test(of_several_the_one_that_dies_or_the_second_time),
        cmocka_unit_test(a_ring_is_handed_over_and_its_query_is_not_to_blame),
        cmocka_unit_test(of_rings_those_that_are_there_the_second_time),
        cmocka_unit_test(what_ended_well_is_no_suspect),
        cmocka_unit_test(sockets_outlive_who_opened_them),
    };

    return RUN_TESTS(tests);
}
