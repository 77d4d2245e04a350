#include "pb_test.h"

#include <stdlib.h>

#include "cli/target.h"

static int nothing(struct pb_ctx *ctx)
{
    (void)ctx;
    return 0;
}

static const struct pb_cmd needs = {.name = "look", .target = PB_TARGET_PROCESS, .run = nothing};
static const struct pb_cmd refuses = {.name = "idle", .run = nothing};

static void kinds(void **state)
{
    (void)state;
    assert_int_equal(pb_target_kind("42"), PB_TARGET_IS_PID);
    assert_int_equal(pb_target_kind("host:8080"), PB_TARGET_IS_REMOTE);
    assert_int_equal(pb_target_kind("10.0.0.1:80"), PB_TARGET_IS_REMOTE);
    assert_int_equal(pb_target_kind("[::1]:80"), PB_TARGET_IS_REMOTE);
    assert_int_equal(pb_target_kind("train.py"), PB_TARGET_IS_TEXT);
    assert_int_equal(pb_target_kind("42x"), PB_TARGET_IS_TEXT);
    assert_int_equal(pb_target_kind("app:main"), PB_TARGET_IS_TEXT);
    assert_int_equal(pb_target_kind("dir/a:80"), PB_TARGET_IS_TEXT);
    assert_int_equal(pb_target_kind(""), PB_TARGET_IS_TEXT);
}

static void check(const struct pb_cmd *cmd, const char *target, enum pb_code code, pid_t pid)
{
    struct pb_ctx ctx = {.cmd = cmd, .target = target};

    assert_int_equal(pb_target_resolve(&ctx), code == PB_OK ? 0 : -1);
    assert_int_equal(ctx.err.code, code);
    assert_int_equal(ctx.pid, pid);
    pb_arena_finish(&ctx.arena);
}

static void resolving(void **state)
{
    (void)state;
    unsetenv("PROBING_TARGET");
    unsetenv("ENDPOINT");
    check(&needs, "42", PB_OK, 42);
    check(&needs, "0", PB_NO_TARGET, 0);
    check(&needs, "99999999999999999999", PB_NO_TARGET, 0);
    check(&needs, "host:80", PB_USAGE, 0);
    check(&needs, "no process is called like this", PB_NO_TARGET, 0);
    check(&needs, NULL, PB_USAGE, 0);
    check(&refuses, NULL, PB_OK, 0);
    check(&refuses, "42", PB_USAGE, 0);
}

static void stand_ins(void **state)
{
    (void)state;
    setenv("ENDPOINT", "7", 1);
    check(&needs, NULL, PB_OK, 7);
    setenv("PROBING_TARGET", "8", 1);
    check(&needs, NULL, PB_OK, 8);
    check(&needs, "9", PB_OK, 9);
    check(&refuses, NULL, PB_OK, 0);
    setenv("PROBING_TARGET", "", 1);
    check(&needs, NULL, PB_OK, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(resolving),
        cmocka_unit_test(stand_ins),
    };

    return RUN_TESTS(tests);
}
