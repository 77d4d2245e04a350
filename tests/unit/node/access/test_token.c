/* The secret that opens a TCP port: made once, kept from others. */
#include "pb_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/access/token.h"

static void test_token_file(void **state)
{
    char dir[64], path[96], one[80], two[80];
    struct pb_err err = {0};
    struct stat st;

    (void)state;
    snprintf(dir, sizeof dir, "/tmp/pb-token-%d", (int)getpid());
    setenv("XDG_CONFIG_HOME", dir, 1);
    assert_int_equal(pb_token_own(one, sizeof one, false, &err), -1);
    assert_int_equal(err.code, PB_NO_TARGET);
    err = (struct pb_err){0};
    if (pb_token_own(one, sizeof one, true, &err) < 0 ||
        pb_token_own(two, sizeof two, false, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(one, two);
    assert_int_equal(strlen(one), 64);
    snprintf(path, sizeof path, "%s/probing/token", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    chmod(path, 0644);
    assert_int_equal(pb_token_own(two, sizeof two, true, &err), -1);
    assert_int_equal(err.code, PB_DENIED);
    unlink(path);
    rmdir(strcat(strcpy(path, dir), "/probing"));
    rmdir(dir);
}

static void test_what_can_be_one(void **state)
{
    struct pb_err err = {0};

    (void)state;
    assert_int_equal(pb_token_check("good-enough", &err), 0);
    assert_int_equal(pb_token_check("short", &err), -1);
    assert_string_equal(err.msg, "token: 8 to 79 characters, this has 5");
    assert_int_equal(pb_token_check("a token with blanks", NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_file),
        cmocka_unit_test(test_what_can_be_one),
    };

    return RUN_TESTS(tests);
}
