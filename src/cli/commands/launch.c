/*
 * probing launch COMMAND - start a command with the agent in it.
 *
 * The command is started in place of this tool, so that its pid, terminal,
 * signals and exit status are as if it had been started directly. All that it
 * gets is two variables: PYTHONPATH, for a sitecustomize.py that loads the
 * agent before the first line of the program, and PROBING, which says in which
 * processes (docs/python.md). Nothing is traced, and there is no race.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/launch/launch_files.h"
#include "cli/settings/yaml_settings.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "recursive", .letter = 'r', .help = "Also the Python processes that it starts"},
    {.name = "only",
     .type = PB_OPT_STR,
     .arg = "WHICH",
     .help = "Only the script name.py, or command lines that match regex:PATTERN"},
    {.name = "config",
     .letter = 'c',
     .type = PB_OPT_STR,
     .arg = "FILE",
     .help = "Settings of the agent, in YAML (see attach)"},
    {0},
};

static const struct pb_positional positionals[] = {
    {.name = "COMMAND",
     .help = "What to start, with its own options",
     .required = true,
     .many = true,
     .verbatim = true},
    {0},
};

const struct pb_cmd pb_cmd_launch = {
    .name = "launch",
    .aliases = "run",
    .summary = "Start a command with probing on",
    .details = "For a Python (3.6 to 3.15) that does not have the package; with it, PROBING=1 in\n"
               "front of the command does the same. Without -r the first Python process gets the\n"
               "agent; with -r every one below it too: workers of torchrun and of a DataLoader,\n"
               "subprocess, multiprocessing. The command takes the place of this tool: terminal,\n"
               "signals and exit status are its own. An interpreter that ignores PYTHONPATH (-E,\n"
               "-I) or has no site (-S) starts without the agent; inject works there, too.",
    .options = options,
    .positionals = positionals,
    .examples = "probing run python train.py --epochs 3\n"
                "probing launch -r torchrun --nproc-per-node 4 train.py\n"
                "probing launch --only train.py bash job.sh",
    .run = run,
};

static const char *which(struct pb_ctx *ctx)
{
    const char *only = pb_opt_str(ctx, "only", NULL);
    size_t n = only ? strlen(only) : 0;

    if (!only)
        return pb_opt_flag(ctx, "recursive") ? "2" : "1";
    if (strncmp(only, "regex:", 6) == 0 || (n > 3 && strcmp(only + n - 3, ".py") == 0))
        return only;
    pb_err_set(&ctx->err, PB_USAGE, "--only: '%s' is neither name.py nor regex:PATTERN", only);
    return NULL;
}

static int set_settings(struct pb_ctx *ctx, const char *path)
{
    struct pb_yaml_settings s;

    if (pb_yaml_settings_read(&s, path, &ctx->arena, &ctx->err) < 0) {
        ctx->note = ""; /* the command line was fine: no usage */
        return -1;
    }
    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        char name[PB_SETTING_NAME_MAX], value[PB_SETTING_VALUE_MAX];

        if (!s.given[i])
            continue;
        pb_settings_env_name(i, name);
        pb_settings_show(&s.settings, i, value);
        setenv(name, value, 1);
    }
    return 0;
}

/* The package asks this tool for port and crash reports; beside that in our cache there is none. */
static void export_own_path(struct pb_ctx *ctx)
{
    char *path = pb_arena_alloc(&ctx->arena, PATH_MAX);
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

    if (n <= 0)
        return;
    path[n] = '\0';
    setenv("PROBING_EXECUTABLE", path, 1);
}

/* The program must find the dispositions that this tool was started with. */
static void restore_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};

    /* SIGINT is caught, which exec undoes by itself. */
    sigaction(SIGPIPE, &standard, NULL);
}

static int run(struct pb_ctx *ctx)
{
    const char *value = which(ctx), *config = pb_opt_str(ctx, "config", NULL);
    const char *before = getenv("PYTHONPATH"), *folder;
    bool more = before && *before;

    if (!value || (config && set_settings(ctx, config) < 0) ||
        pb_launch_files_unpack(&ctx->arena, &folder, &ctx->err) < 0)
        return -1;
    setenv("PROBING", value, 1);
    if (getenv("PROBING_PORT") || getenv("PROBING_CRASH"))
        export_own_path(ctx);
    setenv("PYTHONPATH",
           pb_arena_printf(&ctx->arena, "%s%s%s", folder, more ? ":" : "", more ? before : ""), 1);
    restore_signals();
    execvp(ctx->args[0], ctx->args);
    return pb_err_set(&ctx->err, errno == EACCES ? PB_DENIED : PB_NO_TARGET, "%s: %s", ctx->args[0],
                      strerror(errno));
}
