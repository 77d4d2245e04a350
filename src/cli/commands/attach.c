/*
 * probing attach TARGET - load the agent with settings from a file.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/client/environment.h"
#include "cli/target/job.h"
#include "cli/client/link.h"
#include "cli/target/target.h"
#include "cli/settings/yaml_settings.h"
#include "host/net/agent_socket.h"
#include "host/process/proc.h"
#include "inject/inject.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "config",
     .letter = 'c',
     .type = PB_OPT_STR,
     .arg = "FILE",
     .help = "Settings of the agent, in YAML"},
    {0},
};

static const struct pb_positional positionals[] = {
    {.name = "TARGET", .help = "The process, where it does not stand in front of the command"},
    {0},
};

const struct pb_cmd pb_cmd_attach = {
    .name = "attach",
    .summary = "Inject probes, with settings from a file",
    .details = "The same as inject, for settings that are kept in a file:\n"
               "\n"
               "  probing:\n"
               "    eval:\n"
               "      timeout: 5           # the setting eval.timeout\n"
               "    agent.follow_forks: off\n"
               "\n"
               "Lists, {flow style}, anchors and references (*usual, <<: *usual) may be used;\n"
               "keys that start with x- are there to be referred to. The file is checked before\n"
               "the process is touched; a key that does not exist or a value out of its limits\n"
               "is an error. If the agent is there already, the settings are applied to it.\n"
               "`probing config` lists what can be set.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_OPTIONAL,
    .job = PB_JOB_EACH,
    .remote = true,
    .examples = "probing attach 4242 --config probes.yaml\n"
                "probing 4242 attach --config probes.yaml  # the same",
    .run = run,
};

static bool from_environment(const char *target)
{
    return target == getenv("PROBING_TARGET") || target == getenv("ENDPOINT");
}

/* A target behind the command counts more than one that the environment names. */
static int find_target(struct pb_ctx *ctx)
{
    if (ctx->nargs == 0) {
        if (ctx->pid || ctx->remote)
            return 0;
        return pb_err_set(&ctx->err, PB_USAGE, "attach: TARGET is missing");
    }
    if (ctx->target && !from_environment(ctx->target))
        return pb_err_set(&ctx->err, PB_USAGE, "two targets: '%s' and '%s'", ctx->target,
                          ctx->args[0]);
    ctx->target = ctx->args[0];
    return pb_cli_target_resolve(ctx);
}

/* A file for a process that names what only the node acts on would do half of what it says. */
static int refuse_of_node(struct pb_ctx *ctx, const struct pb_yaml_settings *s)
{
    char value[PB_SETTING_VALUE_MAX];

    for (int i = 0; i < PB_SETTING_COUNT; i++) {
        const char *line;

        if (!s->given[i] || pb_settings_whose(i) != PB_OF_NODE)
            continue;
        pb_settings_format(i, s->settings.v[i], value);
        line = pb_arena_printf(&ctx->arena, "%s=%s", pb_setting_list[i].name, value);
        return pb_link_of_node(ctx, line, strlen(line));
    }
    return 0;
}

/* What the file and the environment say, the file last. */
static int read_settings(struct pb_ctx *ctx, const char **ret_lines)
{
    const char *path = pb_opt_str(ctx, "config", NULL), *lines = "", *around;
    struct pb_yaml_settings settings;

    if (path) {
        if (pb_yaml_settings_read(&settings, path, &ctx->arena, &ctx->err) < 0) {
            ctx->note = ""; /* the command line was fine: no usage */
            return -1;
        }
        lines = pb_yaml_settings_lines(&settings, &ctx->arena);
        if (refuse_of_node(ctx, &settings) < 0)
            return -1;
    }
    if (pb_environment_lines(ctx, &around) < 0)
        return -1;
    *ret_lines = *around ? pb_arena_printf(&ctx->arena, "%s\n%s", around, lines) : lines;
    return 0;
}

static int load(struct pb_ctx *ctx, const char *lines, bool *ret_there)
{
    struct pb_inject_report report;

    pb_environment_tell_running(ctx);
    if (pb_proc_check_access(ctx->pid, ctx->command_line, &ctx->err) < 0)
        return -1;
    *ret_there = pb_agent_present(ctx->pid);
    return *ret_there ? pb_link_apply(ctx, lines)
                      : pb_inject_agent(ctx->pid, lines, 0, false, &report, &ctx->err);
}

static int run(struct pb_ctx *ctx)
{
    const char *lines;
    bool there;

    if (read_settings(ctx, &lines) < 0 || find_target(ctx) < 0)
        return -1;
    if (ctx->nargs && ctx->njob) {
        ctx->nargs = 0; /* from now on the target is each process of the job */
        return pb_job_run(ctx);
    }
    if (ctx->remote ? pb_link_load_remote(ctx, lines, &there) < 0 : load(ctx, lines, &there) < 0)
        return -1;
    if (there)
        pb_print_f(&ctx->out, "Probes are already in process %s%s\n", pb_link_who(ctx),
                   *lines ? "; settings applied" : "");
    else
        pb_print_f(&ctx->out, "Successfully injected probes into process %s\n", pb_link_who(ctx));
    return 0;
}
