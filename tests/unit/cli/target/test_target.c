#include "pb_test.h"

#include <stdlib.h>

#include "cli/target/target.h"

static int nothing(struct pb_ctx *ctx)
{
    (void)ctx;
    return 0;
}

static const struct pb_cmd needs = {.name = "look", .target = PB_TARGET_PROCESS, .run = nothing};
static const struct pb_cmd travels = {
    .name = "far", .target = PB_TARGET_PROCESS, .remote = true, .run = nothing};
static const struct pb_cmd asks = {.name = "ask", .target = PB_TARGET_SCOPE, .run = nothing};
static const struct pb_cmd refuses = {.name = "idle", .run = nothing};

static void kinds(void **state)
{
    (void)state;
    assert_int_equal(pb_cli_target_kind("42"), PB_CLI_TARGET_PID);
    assert_int_equal(pb_cli_target_kind("host:8080"), PB_CLI_TARGET_REMOTE);
    assert_int_equal(pb_cli_target_kind("10.0.0.1:80"), PB_CLI_TARGET_REMOTE);
    assert_int_equal(pb_cli_target_kind("[::1]:80"), PB_CLI_TARGET_REMOTE);
    assert_int_equal(pb_cli_target_kind("train.py"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("42x"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("app:main"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("dir/a:80"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind(""), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("42-1234"), PB_CLI_TARGET_ID);
    assert_int_equal(pb_cli_target_kind("42-"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("42,43-7,44"), PB_CLI_TARGET_ID);
    assert_int_equal(pb_cli_target_kind("42,"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind(",42"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("host:8080/42"), PB_CLI_TARGET_REMOTE);
    assert_int_equal(pb_cli_target_kind("[::1]:80/42-7"), PB_CLI_TARGET_REMOTE);
    assert_int_equal(pb_cli_target_kind("host:8080/a"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("host:80/4/2"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind("host:"), PB_CLI_TARGET_TEXT);
    assert_int_equal(pb_cli_target_kind(":8080"), PB_CLI_TARGET_REMOTE);
    assert_int_equal(pb_cli_target_kind("job:train.py"), PB_CLI_TARGET_JOB);
    assert_int_equal(pb_cli_target_kind("job:8080"), PB_CLI_TARGET_JOB);
}

static void check(const struct pb_cmd *cmd, const char *target, enum pb_code code, pid_t pid)
{
    struct pb_ctx ctx = {.cmd = cmd, .target = target};

    assert_int_equal(pb_cli_target_resolve(&ctx), code == PB_OK ? 0 : -1);
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

static void check_far(const struct pb_cmd *cmd, const char *target, const char *remote,
                      const char *scope)
{
    struct pb_ctx ctx = {.cmd = cmd, .target = target};

    assert_int_equal(pb_cli_target_resolve(&ctx), 0);
    if (remote)
        assert_string_equal(ctx.remote, remote);
    else
        assert_null(ctx.remote);
    if (scope)
        assert_string_equal(ctx.scope, scope);
    else
        assert_null(ctx.scope);
    pb_arena_finish(&ctx.arena);
}

static void nodes(void **state)
{
    (void)state;
    check_far(&travels, "host:80", "host:80", NULL);
    check_far(&travels, "host:80/42", "host:80", "42");
    check_far(&asks, "host:80", "host:80", NULL);
    check_far(&asks, "42", NULL, "42");
    check_far(&asks, "42-7", NULL, "42-7");
    check_far(&asks, NULL, NULL, NULL);
    check(&asks, "0", PB_NO_TARGET, 0);
}

static void folders(void **state)
{
    struct pb_ctx ctx = {.cmd = &needs, .target = "42", .store = "/tmp"};

    (void)state;
    assert_int_equal(pb_cli_target_resolve(&ctx), -1);
    assert_int_equal(ctx.err.code, PB_USAGE);
    ctx = (struct pb_ctx){.cmd = &asks, .target = "host:80", .store = "/tmp"};
    assert_int_equal(pb_cli_target_resolve(&ctx), -1);
    ctx = (struct pb_ctx){.cmd = &asks, .target = "42", .store = "/tmp"};
    assert_int_equal(pb_cli_target_resolve(&ctx), 0);
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
        cmocka_unit_test(nodes),
        cmocka_unit_test(folders),
        cmocka_unit_test(stand_ins),
    };

    return RUN_TESTS(tests);
}
