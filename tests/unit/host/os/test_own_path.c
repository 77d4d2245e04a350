/* Whose folders root takes for its own. */
#include "pb_test.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/os/own_path.h"

#define STRANGER 65534

static char top[64], path[128];

static const char *in_top(const char *name)
{
    snprintf(path, sizeof path, "%s%s", top, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    strcpy(top, "/tmp/own-path-XXXXXX");
    return mkdtemp(top) && mkdir(in_top("/ours"), 0755) == 0 &&
                   mkdir(in_top("/open"), 0777) == 0 && chmod(in_top("/open"), 0777) == 0 &&
                   mkdir(in_top("/theirs"), 0755) == 0 && mkdir(in_top("/theirs/ours"), 0755) == 0
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(in_top("/link"));
    rmdir(in_top("/theirs/ours"));
    rmdir(in_top("/theirs"));
    rmdir(in_top("/open"));
    rmdir(in_top("/ours"));
    return rmdir(top);
}

static void every_folder_on_the_way_counts(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        assert_true(pb_own_path("/nowhere"));
        skip();
    }
    assert_int_equal(chown(in_top("/theirs"), STRANGER, STRANGER), 0);
    assert_true(pb_own_path("/"));
    assert_true(pb_own_path("/tmp")); /* where nobody takes another's names away */
    assert_true(pb_own_path(in_top("/ours")));
    assert_true(pb_own_path(in_top("/ours/not/there/yet")));
    assert_false(pb_own_path(in_top("/theirs")));
    assert_false(pb_own_path(in_top("/theirs/not/there/yet")));
    assert_false(pb_own_path(in_top("/theirs/ours"))); /* may be moved, and another put there */
    assert_false(pb_own_path(in_top("/open")));
    assert_false(pb_own_path("relative"));
    assert_int_equal(symlink("theirs/ours", in_top("/link")), 0);
    assert_false(pb_own_path(in_top("/link")));
    assert_int_equal(unlink(in_top("/link")), 0);
    assert_int_equal(symlink("ours", in_top("/link")), 0);
    assert_true(pb_own_path(in_top("/link/below")));
    assert_int_equal(lchown(in_top("/link"), STRANGER, STRANGER), 0);
    assert_false(pb_own_path(in_top("/link/below"))); /* it may lead elsewhere tomorrow */
}

static void home_is_an_own_one(void **state)
{
    const struct passwd *user = getpwuid(geteuid());
    char buf[256];

    (void)state;
    if (geteuid() != 0 || !user)
        skip();
    assert_int_equal(chown(in_top("/theirs"), STRANGER, STRANGER), 0);
    setenv("HOME", in_top("/ours"), 1);
    assert_string_equal(pb_own_home(buf, sizeof buf), in_top("/ours"));
    setenv("HOME", in_top("/theirs"), 1);
    assert_string_equal(pb_own_home(buf, sizeof buf), user->pw_dir);
    unsetenv("HOME");
    assert_string_equal(pb_own_home(buf, sizeof buf), user->pw_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_folder_on_the_way_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(home_is_an_own_one, set_up, tear_down),
    };

    return RUN_TESTS(tests);
}
