/*
 * The manual page, in roff. Hidden: the build calls it, people call man(1).
 */
#include <string.h>

#include "cli/cmd.h"
#include "cli/manual/help.h"

static int run(struct pb_ctx *ctx);

const struct pb_cmd pb_cmd_man = {
    .name = "man",
    .summary = "Print the manual page",
    .hidden = true,
    .run = run,
};

/* Text as it is: nothing in it is a request, and dashes can be copied. */
static void text(struct pb_buf *b, const char *s)
{
    bool line_start = b->len == 0 || b->data[b->len - 1] == '\n';

    for (; *s; s++) {
        if (line_start && (*s == '.' || *s == '\''))
            pb_buf_puts(b, "\\&");
        if (*s == '-')
            pb_buf_puts(b, "\\-");
        else if (*s == '\\')
            pb_buf_puts(b, "\\e");
        else
            pb_buf_putc(b, *s);
        line_start = *s == '\n';
    }
}

static void line(struct pb_buf *b, const char *s)
{
    text(b, s);
    pb_buf_putc(b, '\n');
}

/* A term in bold, then what it means. */
static void entry(struct pb_buf *b, const char *term, const char *meaning)
{
    pb_buf_puts(b, ".TP\n\\fB");
    text(b, term + strspn(term, " "));
    pb_buf_puts(b, "\\fR\n");
    line(b, meaning);
}

static void options(struct pb_buf *b, const struct pb_opt *o)
{
    struct pb_arena a = PB_ARENA_INIT;

    for (; o && o->name; o++) {
        entry(b, pb_help_option_name(&a, o), o->help);
        if (o->choices) {
            pb_buf_puts(b, ".br\n");
            line(b, pb_arena_printf(&a, "One of %s.", o->choices));
        }
    }
    pb_arena_finish(&a);
}

static void examples(struct pb_buf *b, const char *s)
{
    pb_buf_puts(b, ".PP\n.RS 4\n.nf\n");
    text(b, s);
    pb_buf_puts(b, s[strlen(s) - 1] == '\n' ? ".fi\n.RE\n" : "\n.fi\n.RE\n");
}

static void command(struct pb_buf *b, const struct pb_cmd *cmd)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_buf usage = PB_BUF_INIT;

    pb_buf_printf(b, ".SS %s\n", cmd->name);
    pb_help_usage(&usage, cmd);
    pb_buf_puts(b, "\\fB");
    text(b, usage.data);
    pb_buf_puts(b, "\\fR\n.PP\n");
    line(b, pb_arena_printf(&a, "%s.", cmd->summary));
    if (cmd->aliases)
        line(b, pb_arena_printf(&a, "Also: %s.", cmd->aliases));
    if (cmd->details) {
        pb_buf_puts(b, ".PP\n");
        line(b, cmd->details);
    }
    for (const struct pb_positional *p = cmd->positionals; p && p->name; p++) {
        entry(b, pb_help_positional_name(&a, p), p->help);
        if (p->choices) {
            pb_buf_puts(b, ".br\n");
            line(b, pb_arena_printf(&a, "One of %s.", p->choices));
        }
    }
    options(b, cmd->options);
    if (cmd->examples)
        examples(b, cmd->examples);
    pb_buf_finish(&usage);
    pb_arena_finish(&a);
}

static void exit_codes(struct pb_buf *b)
{
#define X(name, value, meaning) entry(b, #value, meaning);
    PB_CODES(X)
#undef X
    entry(b, "130", "interrupted by Ctrl-C");
}

static int run(struct pb_ctx *ctx)
{
    struct pb_buf *b = &ctx->out.buf;

    pb_buf_puts(b, ".TH PROBING 1 \"\" \"probing " PB_VERSION "\" \"User Commands\"\n"
                   ".SH NAME\n"
                   "probing \\- look into live Python AI jobs\n"
                   ".SH SYNOPSIS\n"
                   ".B probing\n"
                   "[OPTIONS] [TARGET] [COMMAND]\n"
                   ".SH DESCRIPTION\n"
                   "Shows what a live Python process is doing, from outside: without touching its "
                   "code, restarting it or slowing it down.\n"
                   ".SH TARGETS\n");
    line(b, "A TARGET is a process: " PB_TARGET_HELP
            ". A part of a command line must match exactly one "
            "Python process.");
    pb_buf_puts(b, ".SH COMMANDS\n");
    for (const struct pb_cmd *const *c = pb_cmds; *c; c++) {
        if (!(*c)->hidden)
            command(b, *c);
    }
    pb_buf_puts(b, ".SH OPTIONS\nThese may stand before or after the command.\n");
    options(b, pb_opts_global);
    pb_buf_puts(b, ".SH ENVIRONMENT\n");
    entry(b, "PROBING_TARGET, ENDPOINT", "The target when none is given, in this order.");
    entry(b, "PROBING_HOME", "Where a node keeps history (default: XDG_DATA_HOME/probing).");
    entry(b, "PROBING_TOKEN", "The token for a remote node.");
    entry(b, "PROBING_PAGER, PAGER", "What shows long tables; empty or cat for none.");
    entry(b, "NO_COLOR", "When set, no colours, even on a terminal.");
    entry(b, "COLUMNS", "Width of the terminal, when it should not be asked.");
    pb_buf_puts(b, ".SH EXIT STATUS\n");
    exit_codes(b);
    return 0;
}
