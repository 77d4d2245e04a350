#include "pb_test.h"

#include <stdlib.h>

#include "cli/line/parse.h"

struct parsed {
    struct pb_ctx ctx;
    struct pb_request request;
    int rc;
};

/* Takes the words of a command line, "probing" left out. */
static struct parsed parse(const char *line)
{
    static char text[512];
    static char *argv[32];
    struct parsed p = {0};
    int argc = 1;

    strcpy(text, line);
    argv[0] = (char[]){"probing"};
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    p.rc = pb_parse(&p.ctx, &p.request, argc, argv);
    return p;
}

static void done(struct parsed *p)
{
    pb_arena_finish(&p->ctx.arena);
}

static void check_error(const char *line, const char *message)
{
    struct parsed p = parse(line);

    assert_int_equal(p.rc, -1);
    assert_int_equal(p.ctx.err.code, PB_USAGE);
    assert_string_equal(p.ctx.err.msg, message);
    done(&p);
}

static void check_command(const char *line, const char *command, const char *target)
{
    struct parsed p = parse(line);

    assert_int_equal(p.rc, 0);
    assert_non_null(p.ctx.cmd);
    assert_string_equal(p.ctx.cmd->name, command);
    if (target)
        assert_string_equal(p.ctx.target, target);
    else
        assert_null(p.ctx.target);
    done(&p);
}

static void targets(void **state)
{
    (void)state;
    check_command("42 backtrace", "backtrace", "42");
    check_command("-t 42 backtrace", "backtrace", "42");
    check_command("-t42 bt", "backtrace", "42");
    check_command("--target=42 b", "backtrace", "42");
    check_command("backtrace -t 42", "backtrace", "42");
    check_command("train.py backtrace", "backtrace", "train.py");
    check_command("-- train.py backtrace", "backtrace", "train.py");
    check_command("list", "list", NULL);
    check_error("-t 1 2 backtrace", "unknown command '2'");
    check_error("1 backtrace -t 2", "two targets: '1' and '2'");
    check_error("--target", "--target needs a value: --target=TARGET");
}

static void options(void **state)
{
    struct parsed p = parse("42 backtrace -al --watch=0.5 --count 3 77 -fjson -v");

    (void)state;
    assert_int_equal(p.rc, 0);
    assert_true(pb_opt_flag(&p.ctx, "all"));
    assert_true(pb_opt_flag(&p.ctx, "locals"));
    assert_false(pb_opt_flag(&p.ctx, "native"));
    assert_false(pb_opt_flag(&p.ctx, "no such option"));
    assert_true(pb_opt_num(&p.ctx, "watch", 9) == 0.5);
    assert_int_equal(pb_opt_int(&p.ctx, "count", 9), 3);
    assert_int_equal(pb_opt_int(&p.ctx, "limit", 9), 9);
    assert_string_equal(pb_opt_str(&p.ctx, "format", "text"), "json");
    assert_true(p.ctx.verbose);
    assert_int_equal(p.ctx.nargs, 1);
    assert_string_equal(p.ctx.args[0], "77");
    done(&p);
}

static void own_letters_win_behind_the_command(void **state)
{
    struct parsed p = parse("list -t");

    (void)state;
    assert_int_equal(p.rc, 0);
    assert_true(pb_opt_flag(&p.ctx, "tree"));
    assert_null(p.ctx.target);
    done(&p);
}

static void unknown_words(void **state)
{
    (void)state;
    check_error("42 bactrace", "unknown command 'bactrace'. Did you mean 'backtrace'?");
    check_error("lits", "unknown command 'lits'. Did you mean 'list'?");
    check_error("back 42", "unknown command 'back'. Did you mean 'backtrace'?");
    check_error("42 perf", "no command 'perf' here; nearest in meaning: flamegraph -n, top");
    check_error("dashboard", "no command 'dashboard' here; nearest in meaning: web");
    check_error("42 dump", "no command 'dump' here; nearest in meaning: backtrace -a");
    check_error("dump", "no command 'dump' here; nearest in meaning: backtrace -a");
    check_error("42 zzzzzz", "unknown command 'zzzzzz'");
    check_error("42 man-page", "unknown command 'man-page'");
    check_error("list --formt=json", "unknown option '--formt'. Did you mean '--format'?");
    check_error("list --zzzzz", "unknown option '--zzzzz'");
    check_error("list -tz", "unknown option '-z'");
    check_error("--verbos list", "unknown option '--verbos'. Did you mean '--verbose'?");
    check_error("list extra", "list: unexpected argument 'extra'");
    check_error("completion", "completion: SHELL is missing");
    check_error("completion tcsh", "completion: 'tcsh' is not one of bash|zsh|fish");
    check_error("42", "no command for target '42'. Try: probing 42 backtrace");
}

static void bad_values(void **state)
{
    (void)state;
    check_error("list -f xml", "--format: 'xml' is not one of table|json|csv");
    check_error("list -f", "--format needs a value: --format=FORMAT");
    check_error("list --tree=yes", "--tree takes no value");
    check_error("1 bt --count x", "--count: 'x' is not a whole number");
    check_error("1 bt --count 2x", "--count: '2x' is not a whole number");
    check_error("1 bt --watch nan", "--watch: 'nan' is not a number");
    check_error("1 bt --watch -1", "--watch: -1 is not between 0 and 86400");
}

static void help_and_version(void **state)
{
    struct parsed p = parse("--help");

    (void)state;
    assert_true(p.rc == 0 && p.request.help && !p.ctx.cmd);
    done(&p);
    p = parse("list -h --bogus");
    assert_true(p.rc == 0 && p.request.help);
    assert_string_equal(p.ctx.cmd->name, "list");
    done(&p);
    p = parse("-V");
    assert_true(p.rc == 0 && p.request.version);
    done(&p);
    p = parse("");
    assert_true(p.rc == 0 && !p.ctx.cmd && !p.request.help);
    done(&p);
}

static void double_dash_ends_options(void **state)
{
    struct parsed p = parse("42 backtrace -- -a");

    (void)state;
    assert_int_equal(p.rc, 0);
    assert_false(pb_opt_flag(&p.ctx, "all"));
    assert_string_equal(p.ctx.args[0], "-a");
    done(&p);
}

static void the_line_is_quoted_for_a_shell(void **state)
{
    struct pb_ctx ctx = {0};
    struct pb_request request;
    char words[][16] = {"probing", "it's", "a b", "", "x=1", "list"};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4], words[5], NULL};

    (void)state;
    pb_parse(&ctx, &request, 6, argv);
    assert_string_equal(ctx.command_line, "probing 'it'\\''s' 'a b' '' x=1 list");
    pb_arena_finish(&ctx.arena);
}

static void check_sql(char **argv, const char *target, const char *command, const char *arg)
{
    struct pb_ctx ctx = {0};
    struct pb_request request;
    int argc = 0;

    while (argv[argc])
        argc++;
    assert_int_equal(pb_parse(&ctx, &request, argc, argv), 0);
    assert_string_equal(ctx.cmd->name, command);
    if (target)
        assert_string_equal(ctx.target, target);
    else
        assert_null(ctx.target);
    if (arg)
        assert_string_equal(ctx.args[0], arg);
    pb_arena_finish(&ctx.arena);
}

static void sql_needs_no_command(void **state)
{
    static char probing[] = "probing", sql[] = "SELECT 1", pid[] = "42", f[] = "-f", csv[] = "csv";
    static char from[] = "from it.py", bt[] = "bt", remark[] = "-- why\nSELECT 1", q[] = "q";

    (void)state;
    check_sql((char *[]){probing, sql, NULL}, NULL, "query", sql);
    check_sql((char *[]){probing, pid, sql, NULL}, "42", "query", sql);
    check_sql((char *[]){probing, pid, sql, f, csv, NULL}, "42", "query", sql);
    check_sql((char *[]){probing, pid, remark, NULL}, "42", "query", remark);
    check_sql((char *[]){probing, pid, q, remark, NULL}, "42", "query", remark);
    /* What looks like SQL in front of a command is a target. */
    check_sql((char *[]){probing, from, bt, NULL}, from, "backtrace", NULL);
}

static void options_for_a_node(void **state)
{
    struct parsed p = parse("--store /tmp/x --token=abc query x --token-file f");

    (void)state;
    assert_int_equal(p.rc, 0);
    assert_string_equal(p.ctx.store, "/tmp/x");
    assert_string_equal(p.ctx.token, "abc");
    assert_string_equal(p.ctx.token_file, "f");
    done(&p);
}

/* What ps shows is overwritten; the command has a copy, and its hints do not repeat it. */
static void tokens_are_hidden(void **state)
{
    static const char *const forms[] = {"--token=my-secret", "--token"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        char first[32], second[] = "my-secret", list[] = "list";
        char *argv[] = {(char[]){"probing"}, first, i ? second : list, i ? list : NULL, NULL};
        struct pb_request request;
        struct pb_ctx ctx = {0};

        strcpy(first, forms[i]);
        assert_int_equal(pb_parse(&ctx, &request, 3 + i, argv), 0);
        assert_string_equal(ctx.token, "my-secret");
        assert_string_equal(i ? second : first, i ? "*********" : "--token=*********");
        assert_string_equal(ctx.command_line, "probing '--token=***' list");
        pb_arena_finish(&ctx.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets),
        cmocka_unit_test(options),
        cmocka_unit_test(own_letters_win_behind_the_command),
        cmocka_unit_test(unknown_words),
        cmocka_unit_test(bad_values),
        cmocka_unit_test(help_and_version),
        cmocka_unit_test(double_dash_ends_options),
        cmocka_unit_test(the_line_is_quoted_for_a_shell),
        cmocka_unit_test(sql_needs_no_command),
        cmocka_unit_test(options_for_a_node),
        cmocka_unit_test(tokens_are_hidden),
    };

    return RUN_TESTS(tests);
}
