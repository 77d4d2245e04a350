#include "cli/cmd.h"

#include <string.h>
#include <unistd.h>

#define PB_COMMAND(name) extern const struct pb_cmd pb_cmd_##name;
#include "cli/commands.def"
#undef PB_COMMAND

const struct pb_cmd *const pb_cmds[] = {
#define PB_COMMAND(name) &pb_cmd_##name,
#include "cli/commands.def"
#undef PB_COMMAND
    NULL,
};

const struct pb_opt pb_opts_global[] = {
    {.name = "target",
     .letter = 't',
     .type = PB_OPT_STR,
     .arg = "TARGET",
     .help = "The target, where it does not stand in front of the command"},
    {.name = "token",
     .type = PB_OPT_STR,
     .arg = "TOKEN",
     .help = "A remote node's token; others can see it here: rather use $PROBING_TOKEN"},
    {.name = "token-file",
     .type = PB_OPT_STR,
     .arg = "FILE",
     .help = "Where the token is (default: $PROBING_TOKEN, then your own)"},
    {.name = "cluster", .help = "All machines of the cluster: the same as cluster in front"},
    {.name = "plain", .help = "Speak to a remote node without TLS: others on the way can read it"},
    {.name = "store",
     .type = PB_OPT_STR,
     .arg = "DIR",
     .help = "Look at a copied folder of tables, not at this machine"},
    {.name = "core",
     .type = PB_OPT_STR,
     .arg = "FILE",
     .help = "Look at a core file, not at a process: backtrace, memory --heap"},
    {.name = "exe",
     .type = PB_OPT_STR,
     .arg = "PATH",
     .help = "With --core from another machine: the program's file, or a folder with its files"},
    {.name = "verbose", .letter = 'v', .help = "Say more: how things were found and measured"},
    {.name = "help", .letter = 'h', .help = "Print help"},
    {.name = "version", .letter = 'V', .help = "Print version"},
    {0},
};

/* Is name one of the words in "ls, l"? */
static bool in_list(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (list && *list) {
        size_t n = strcspn(list, ", ");

        if (n == len && memcmp(list, name, n) == 0)
            return true;
        list += n;
        list += strspn(list, ", ");
    }
    return false;
}

const struct pb_cmd *pb_cmd_find(const char *name)
{
    for (const struct pb_cmd *const *c = pb_cmds; *c; c++) {
        if (strcmp((*c)->name, name) == 0 || (*name && in_list((*c)->aliases, name)))
            return *c;
    }
    return NULL;
}

struct pb_opt pb_opt_behind(const struct pb_cmd *cmd, const struct pb_opt *global)
{
    struct pb_opt copy = *global;

    for (const struct pb_opt *o = cmd ? cmd->options : NULL; o && o->name; o++) {
        if (o->letter == copy.letter)
            copy.letter = 0;
    }
    return copy;
}

static const struct pb_opt_value *value_of(const struct pb_ctx *ctx, const char *name)
{
    const struct pb_opt *o = ctx->cmd->options;

    for (size_t i = 0; o && o[i].name; i++) {
        if (strcmp(o[i].name, name) == 0)
            return ctx->values[i].set ? &ctx->values[i] : NULL;
    }
    return NULL;
}

bool pb_opt_flag(const struct pb_ctx *ctx, const char *name)
{
    return value_of(ctx, name) != NULL;
}

const char *pb_opt_str(const struct pb_ctx *ctx, const char *name, const char *default_value)
{
    const struct pb_opt_value *v = value_of(ctx, name);

    return v ? v->str : default_value;
}

long pb_opt_int(const struct pb_ctx *ctx, const char *name, long default_value)
{
    const struct pb_opt_value *v = value_of(ctx, name);

    return v ? (long)v->num : default_value;
}

double pb_opt_num(const struct pb_ctx *ctx, const char *name, double default_value)
{
    const struct pb_opt_value *v = value_of(ctx, name);

    return v ? v->num : default_value;
}

void pb_ctx_notice(const struct pb_ctx *ctx, const char *text)
{
    struct pb_print e;

    (void)ctx;
    pb_print_init(&e, STDERR_FILENO);
    pb_print_text(&e, PB_PLAIN, text);
    pb_print_puts(&e, "\n");
    pb_print_flush(&e, NULL);
    pb_print_finish(&e);
}
