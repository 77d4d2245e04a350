/*
 * Scripts that let a shell complete commands, options and values. Each finds
 * the command among the words typed so far, then offers what belongs to it.
 */
#include <string.h>

#include "cli/cmd.h"

static int run(struct pb_ctx *ctx);

static const struct pb_positional positionals[] = {
    {.name = "SHELL",
     .help = "The shell to write for",
     .required = true,
     .choices = "bash|zsh|fish"},
    {0},
};

const struct pb_cmd pb_cmd_completion = {
    .name = "completion",
    .summary = "Print a completion script for a shell",
    .positionals = positionals,
    .examples = "source <(probing completion bash)\n"
                "probing completion zsh > ~/.zfunc/_probing\n"
                "probing completion fish > ~/.config/fish/completions/probing.fish",
    .run = run,
};

/*
 * Numbers alone: other fields are what strangers name their programs, may hold ends of lines, and
 * bash expands the words that it completes from.
 */
#define LIST_PIDS "probing list -f csv 2>/dev/null | sed -n 's/^\\([0-9][0-9]*\\),.*/\\1/p'"

typedef void each_option(struct pb_buf *b, const struct pb_cmd *cmd, const struct pb_opt *o);

/* A command's own options, then those of all. */
static void for_options(struct pb_buf *b, const struct pb_cmd *cmd, each_option *visit)
{
    for (const struct pb_opt *o = cmd ? cmd->options : NULL; o && o->name; o++)
        visit(b, cmd, o);
    for (const struct pb_opt *o = pb_opts_global; o->name; o++) {
        struct pb_opt shown = pb_opt_behind(cmd, o);

        visit(b, cmd, &shown);
    }
}

/* Words split at any of the separators, with something between them. */
static void add_words(struct pb_buf *b, const char *list, const char *separators, const char *glue)
{
    bool first = true;

    while (list && *list) {
        size_t n = strcspn(list, separators);

        if (n) {
            pb_buf_puts(b, first ? "" : glue);
            pb_buf_add(b, list, n);
            first = false;
        }
        list += n;
        list += strspn(list, separators);
    }
}

/* Text for single quotes; special characters get a backslash in front. */
static void add_quoted(struct pb_buf *b, const char *s, const char *special, const char *quote)
{
    for (; *s; s++) {
        if (*s == '\'') {
            pb_buf_puts(b, quote);
            continue;
        }
        if (strchr(special, *s))
            pb_buf_putc(b, '\\');
        pb_buf_putc(b, *s);
    }
}

/* "list|ls|l": a pattern for the names of a command. */
static void add_pattern(struct pb_buf *b, const struct pb_cmd *cmd)
{
    pb_buf_puts(b, cmd->name);
    if (cmd->aliases) {
        pb_buf_putc(b, '|');
        add_words(b, cmd->aliases, ", ", "|");
    }
}

static const struct pb_cmd *const *next_shown(const struct pb_cmd *const *c)
{
    while (*c && (*c)->hidden)
        c++;
    return c;
}

#define FOR_SHOWN(c)                                                                               \
    for (const struct pb_cmd *const *c = next_shown(pb_cmds); *c; c = next_shown(c + 1))

static void sh_find_command(struct pb_buf *b)
{
    FOR_SHOWN (c) {
        pb_buf_puts(b, "            ");
        add_pattern(b, *c);
        pb_buf_printf(b, ") cmd=%s; break ;;\n", (*c)->name);
    }
}

/* Patterns `'list --format'|'list -f')` with the words that may follow. */
static void sh_values(struct pb_buf *b, const char *before, const char *after)
{
    FOR_SHOWN (c) {
        for (const struct pb_opt *o = (*c)->options; o && o->name; o++) {
            if (!o->choices)
                continue;
            pb_buf_printf(b, "        '%s --%s'", (*c)->name, o->name);
            if (o->letter)
                pb_buf_printf(b, "|'%s -%c'", (*c)->name, o->letter);
            pb_buf_printf(b, ") %s", before);
            add_words(b, o->choices, "|", " ");
            pb_buf_printf(b, "%s; return ;;\n", after);
        }
    }
}

static void bash_option(struct pb_buf *b, const struct pb_cmd *cmd, const struct pb_opt *o)
{
    (void)cmd;
    pb_buf_printf(b, " --%s", o->name);
}

static void bash_words(struct pb_buf *b, const struct pb_cmd *cmd)
{
    pb_buf_printf(b, "        %s) words=\"", cmd ? cmd->name : "''");
    if (!cmd) {
        FOR_SHOWN (c)
            pb_buf_printf(b, "%s ", (*c)->name);
    }
    for (const struct pb_positional *p = cmd ? cmd->positionals : NULL; p && p->name; p++)
        add_words(b, p->choices, "|", " ");
    for_options(b, cmd, bash_option);
    pb_buf_puts(b, "\" ;;\n");
}

static void print_bash(struct pb_buf *b)
{
    pb_buf_puts(b, "# bash completion for probing\n"
                   "_probing()\n"
                   "{\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    local cmd= word words=\n"
                   "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
                   "        case $word in\n");
    sh_find_command(b);
    pb_buf_puts(b, "        esac\n"
                   "    done\n"
                   "    case \"$cmd $prev\" in\n");
    sh_values(b, "COMPREPLY=($(compgen -W \"", "\" -- \"$cur\"))");
    pb_buf_puts(b, "    esac\n"
                   "    case $cmd in\n");
    bash_words(b, NULL);
    FOR_SHOWN (c)
        bash_words(b, *c);
    pb_buf_puts(b, "    esac\n"
                   "    if [[ -z $cmd && $cur == [0-9]* ]] || [[ $prev == --target ]]; then\n"
                   "        words=$(" LIST_PIDS ")\n"
                   "    fi\n"
                   "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                   "}\n"
                   "complete -F _probing probing\n");
}

static void zsh_option(struct pb_buf *b, const struct pb_cmd *cmd, const struct pb_opt *o)
{
    (void)cmd;
    pb_buf_printf(b, " '--%s:", o->name);
    add_quoted(b, o->help, ":\\", "'\\''");
    pb_buf_putc(b, '\'');
}

static void zsh_words(struct pb_buf *b, const struct pb_cmd *cmd)
{
    pb_buf_printf(b, "        %s)\n", cmd ? cmd->name : "''");
    if (!cmd) {
        pb_buf_puts(b, "            entries=(");
        FOR_SHOWN (c) {
            pb_buf_printf(b, " '%s:", (*c)->name);
            add_quoted(b, (*c)->summary, ":\\", "'\\''");
            pb_buf_putc(b, '\'');
        }
        pb_buf_puts(b, ")\n            _describe command entries\n");
    }
    for (const struct pb_positional *p = cmd ? cmd->positionals : NULL; p && p->name; p++) {
        if (p->choices) {
            pb_buf_puts(b, "            compadd ");
            add_words(b, p->choices, "|", " ");
            pb_buf_putc(b, '\n');
        }
    }
    pb_buf_puts(b, "            entries=(");
    for_options(b, cmd, zsh_option);
    pb_buf_puts(b, ")\n            _describe -o option entries ;;\n");
}

static void print_zsh(struct pb_buf *b)
{
    pb_buf_puts(b, "#compdef probing\n"
                   "_probing()\n"
                   "{\n"
                   "    local cmd= word prev=${words[CURRENT-1]}\n"
                   "    local -a entries\n"
                   "    for word in ${words[2,CURRENT-1]}; do\n"
                   "        case $word in\n");
    sh_find_command(b);
    pb_buf_puts(b, "        esac\n"
                   "    done\n"
                   "    case \"$cmd $prev\" in\n");
    sh_values(b, "compadd ", "");
    pb_buf_puts(b, "    esac\n"
                   "    case $cmd in\n");
    zsh_words(b, NULL);
    FOR_SHOWN (c)
        zsh_words(b, *c);
    pb_buf_puts(b, "    esac\n"
                   "    if [[ -z $cmd ]]; then\n"
                   "        compadd -- ${(f)\"$(" LIST_PIDS ")\"}\n"
                   "    fi\n"
                   "}\n"
                   "if [[ $funcstack[1] == _probing ]]; then\n"
                   "    _probing \"$@\"\n"
                   "else\n"
                   "    compdef _probing probing\n"
                   "fi\n");
}

static void fish_option(struct pb_buf *b, const struct pb_cmd *cmd, const struct pb_opt *o)
{
    pb_buf_printf(b, "complete -c probing -n '__probing_in %s' -l %s", cmd ? cmd->name : "none",
                  o->name);
    if (o->letter)
        pb_buf_printf(b, " -s %c", o->letter);
    if (o->type != PB_OPT_FLAG)
        pb_buf_puts(b, " -x");
    if (o->choices) {
        pb_buf_puts(b, " -a '");
        add_words(b, o->choices, "|", " ");
        pb_buf_putc(b, '\'');
    }
    pb_buf_puts(b, " -d '");
    add_quoted(b, o->help, "\\", "\\'");
    pb_buf_puts(b, "'\n");
}

static void fish_names(struct pb_buf *b)
{
    FOR_SHOWN (c) {
        pb_buf_printf(b, "            case %s", (*c)->name);
        if ((*c)->aliases) {
            pb_buf_putc(b, ' ');
            add_words(b, (*c)->aliases, ", ", " ");
        }
        pb_buf_printf(b, "\n                test $argv[1] = %s; return\n", (*c)->name);
    }
}

static void print_fish(struct pb_buf *b)
{
    pb_buf_puts(b, "# fish completion for probing\n"
                   "function __probing_in\n"
                   "    for word in (commandline -opc)[2..-1]\n"
                   "        switch $word\n");
    fish_names(b);
    pb_buf_puts(b, "        end\n"
                   "    end\n"
                   "    test $argv[1] = none\n"
                   "end\n"
                   "complete -c probing -f\n"
                   "complete -c probing -n '__probing_in none' "
                   "-a '(probing list -f csv 2>/dev/null | string replace -r -f "
                   "\"^([0-9]+),.*\" \\'$1\\')' -d 'process'\n");
    for_options(b, NULL, fish_option);
    FOR_SHOWN (c) {
        pb_buf_printf(b, "complete -c probing -n '__probing_in none' -a %s -d '", (*c)->name);
        add_quoted(b, (*c)->summary, "\\", "\\'");
        pb_buf_puts(b, "'\n");
        for (const struct pb_positional *p = (*c)->positionals; p && p->name; p++) {
            if (p->choices) {
                pb_buf_printf(b, "complete -c probing -n '__probing_in %s' -a '", (*c)->name);
                add_words(b, p->choices, "|", " ");
                pb_buf_puts(b, "'\n");
            }
        }
        for_options(b, *c, fish_option);
    }
}

static int run(struct pb_ctx *ctx)
{
    if (strcmp(ctx->args[0], "bash") == 0)
        print_bash(&ctx->out.buf);
    else if (strcmp(ctx->args[0], "zsh") == 0)
        print_zsh(&ctx->out.buf);
    else
        print_fish(&ctx->out.buf);
    return 0;
}
