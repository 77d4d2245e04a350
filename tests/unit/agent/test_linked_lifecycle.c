/* The agent in a program without Python: it says no, and nothing of it stays. */
#include "pb_test.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/lifecycle.h"

enum { ROUNDS = 300 };

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void no_python(void **state)
{
    int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");

    (void)state;
    assert_true(probing_start("") < 0);
    assert_true(probing_start("eval.timeout=5") < 0);
    assert_int_equal(probing_stop(), 1);
    assert_int_equal(entries("/proc/self/task"), threads);
    assert_int_equal(entries("/proc/self/fd"), files);
}

/* What is not there is not written to, whatever its number means by now. */
static void wakes_nobody(void **state)
{
    struct pb_self *self = pb_self();
    int ends[2];
    char byte;

    (void)state;
    assert_int_equal(self->wake, -1);
    assert_int_equal(pipe(ends), 0);
    pb_self_wake(self);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

static void *remove_home(void *arg)
{
    pb_lifecycle_remove_home(arg);
    return NULL;
}

/* An eject and the end of the process at the same time. */
static void removed_once(void **state)
{
    struct pb_self *self = pb_self();
    char root[] = "/tmp/probing-unit-XXXXXX", home[64];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(home, sizeof home, "%s/home", root);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t other;

        mkdir(root, 0700);
        assert_int_equal(mkdir(home, 0700), 0);
        memcpy(self->home, home, sizeof home);
        assert_int_equal(pthread_create(&other, NULL, remove_home, self), 0);
        pb_lifecycle_remove_home(self);
        pthread_join(other, NULL);
        assert_int_equal(self->home[0], '\0');
        assert_int_equal(access(home, F_OK), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_python),
        cmocka_unit_test(wakes_nobody),
        cmocka_unit_test(removed_once),
    };

    return RUN_TESTS(tests);
}
