#include "cli/manual/help.h"

#include <string.h>

#include "cli/line/synonym.h"

static int run(struct pb_ctx *ctx);

static const struct pb_positional positionals[] = {
    {.name = "COMMAND", .help = "The command to explain"},
    {0},
};

const struct pb_cmd pb_cmd_help = {
    .name = "help",
    .summary = "Print this message or the help of the given command",
    .positionals = positionals,
    .run = run,
};

static int run(struct pb_ctx *ctx)
{
    const struct pb_cmd *cmd = NULL;
    const char *meaning;

    if (ctx->nargs) {
        cmd = pb_cmd_find(ctx->args[0]);
        meaning = cmd ? NULL : pb_synonym_find(ctx->args[0], false);
        if (!cmd)
            return pb_err_set(&ctx->err, PB_USAGE, "help: no command '%s'%s%s", ctx->args[0],
                              meaning ? "; nearest in meaning: " : "", meaning ? meaning : "");
    }
    pb_help_print(&ctx->out, cmd);
    return 0;
}

char *pb_help_option_name(struct pb_arena *a, const struct pb_opt *o)
{
    char *name = o->letter ? pb_arena_printf(a, "-%c, --%s", o->letter, o->name)
                           : pb_arena_printf(a, "    --%s", o->name);

    return o->arg ? pb_arena_printf(a, "%s <%s>", name, o->arg) : name;
}

char *pb_help_positional_name(struct pb_arena *a, const struct pb_positional *p)
{
    return pb_arena_printf(a, p->required ? "<%s>%s" : "[%s]%s", p->name, p->many ? "..." : "");
}

void pb_help_usage(struct pb_buf *out, const struct pb_cmd *cmd)
{
    struct pb_arena a = PB_ARENA_INIT;

    if (!cmd) {
        pb_buf_puts(out, "probing [OPTIONS] [TARGET] [COMMAND]");
        return;
    }
    pb_buf_puts(out, "probing ");
    if (cmd->target == PB_TARGET_PROCESS)
        pb_buf_puts(out, "<TARGET> ");
    else if (cmd->target != PB_TARGET_UNUSED)
        pb_buf_puts(out, "[TARGET] ");
    pb_buf_puts(out, cmd->name);
    if (cmd->options)
        pb_buf_puts(out, " [OPTIONS]");
    for (const struct pb_positional *p = cmd->positionals; p && p->name; p++)
        pb_buf_printf(out, " %s", pb_help_positional_name(&a, p));
    pb_arena_finish(&a);
}

static void print_title(struct pb_print *out, const char *title)
{
    pb_print_puts(out, "\n");
    pb_print_text(out, PB_BOLD, title);
    pb_print_puts(out, "\n");
}

static void print_row(struct pb_print *out, const char *name, size_t width, const char *help)
{
    pb_print_puts(out, "  ");
    pb_print_cell(out, PB_CYAN, name, width, false);
    pb_print_f(out, "  %s", help);
}

/* cmd: whose letters win, NULL for none. */
static void print_options(struct pb_print *out, const struct pb_opt *options,
                          const struct pb_cmd *cmd)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t width = 0;

    for (const struct pb_opt *o = options; o->name; o++) {
        size_t w = strlen(pb_help_option_name(&a, o));

        width = w > width ? w : width;
    }
    for (const struct pb_opt *o = options; o->name; o++) {
        struct pb_opt shown = pb_opt_behind(cmd, o);

        print_row(out, pb_help_option_name(&a, &shown), width, o->help);
        if (o->choices)
            pb_print_f(out, " [%s]", o->choices);
        pb_print_puts(out, "\n");
    }
    pb_arena_finish(&a);
}

static void print_commands(struct pb_print *out)
{
    size_t width = 0;

    for (const struct pb_cmd *const *c = pb_cmds; *c; c++) {
        size_t w = strlen((*c)->name);

        width = !(*c)->hidden && w > width ? w : width;
    }
    for (const struct pb_cmd *const *c = pb_cmds; *c; c++) {
        if ((*c)->hidden)
            continue;
        print_row(out, (*c)->name, width, (*c)->summary);
        if ((*c)->aliases)
            pb_print_f(out, " [aliases: %s]", (*c)->aliases);
        pb_print_puts(out, "\n");
    }
}

static void print_positionals(struct pb_print *out, const struct pb_cmd *cmd)
{
    struct pb_arena a = PB_ARENA_INIT;
    bool needs_target = cmd->target != PB_TARGET_UNUSED;
    size_t width = needs_target ? strlen("<TARGET>") : 0;

    if (!needs_target && !cmd->positionals)
        return;
    print_title(out, "Arguments:");
    for (const struct pb_positional *p = cmd->positionals; p && p->name; p++) {
        size_t w = strlen(pb_help_positional_name(&a, p));

        width = w > width ? w : width;
    }
    if (needs_target) {
        print_row(out, cmd->target == PB_TARGET_PROCESS ? "<TARGET>" : "[TARGET]", width,
                  "target process, " PB_TARGET_HELP "\n");
    }
    for (const struct pb_positional *p = cmd->positionals; p && p->name; p++) {
        print_row(out, pb_help_positional_name(&a, p), width, p->help);
        if (p->choices)
            pb_print_f(out, " [%s]", p->choices);
        pb_print_puts(out, "\n");
    }
    pb_arena_finish(&a);
}

static void print_usage(struct pb_print *out, const struct pb_cmd *cmd)
{
    pb_print_puts(out, "\n");
    pb_print_text(out, PB_BOLD, "Usage:");
    pb_print_puts(out, " ");
    pb_help_usage(&out->buf, cmd);
    pb_print_puts(out, "\n");
}

static void print_indented(struct pb_print *out, const char *lines)
{
    while (*lines) {
        size_t len = strcspn(lines, "\n");

        pb_print_f(out, "  %.*s\n", (int)len, lines);
        lines += len + (lines[len] == '\n');
    }
}

static void print_overview(struct pb_print *out)
{
    pb_print_puts(out, PB_TITLE "\n");
    print_usage(out, NULL);
    print_title(out, "Commands:");
    print_commands(out);
    print_title(out, "Arguments:");
    print_row(out, "[TARGET]", strlen("[TARGET]"), "target process, " PB_TARGET_HELP "\n");
    print_title(out, "Options:");
    print_options(out, pb_opts_global, NULL);
    pb_print_puts(out, "\nWithout a target, $PROBING_TARGET and then $ENDPOINT are used.\n"
                       "Exit codes: 0 done, 1 failed, 2 usage, 3 not permitted, 4 no such target, "
                       "5 timed out.\n");
}

void pb_help_print(struct pb_print *out, const struct pb_cmd *cmd)
{
    if (!cmd) {
        print_overview(out);
        return;
    }
    pb_print_f(out, "%s\n", cmd->summary);
    if (cmd->details)
        pb_print_f(out, "\n%s\n", cmd->details);
    print_usage(out, cmd);
    if (cmd->aliases)
        pb_print_f(out, "Aliases: %s\n", cmd->aliases);
    print_positionals(out, cmd);
    if (cmd->options) {
        print_title(out, "Options:");
        print_options(out, cmd->options, NULL);
    }
    print_title(out, "Global options:");
    print_options(out, pb_opts_global, cmd);
    if (cmd->examples) {
        print_title(out, "Examples:");
        print_indented(out, cmd->examples);
    }
}
