#include "cli/line/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/line/argv.h"
#include "cli/sqltext.h"
#include "cli/line/synonym.h"
#include "cli/target/target.h"
#include "host/text/nearest.h"

struct parser {
    struct pb_ctx *ctx;
    struct pb_request *request;
    char **argv;     /* what is left, NULL at the end */
    bool only_words; /* "--" was seen */
    bool target_by_option;
};

const char *pb_parse_nearest_command(const char *word)
{
    struct pb_nearest n = PB_NEAREST_INIT(word);

    for (const struct pb_cmd *const *c = pb_cmds; *c; c++) {
        if (!(*c)->hidden)
            pb_nearest_offer(&n, (*c)->name);
    }
    return pb_nearest_result(&n);
}

static int unknown_command(struct pb_ctx *ctx, const char *word)
{
    const char *near = pb_parse_nearest_command(word), *meaning = pb_synonym_find(word, false);

    if (meaning) {
        ctx->note = ""; /* the line says it all: no usage */
        return pb_err_set(&ctx->err, PB_USAGE, "no command '%s' here; nearest in meaning: %s",
                          word, meaning);
    }
    if (near)
        return pb_err_set(&ctx->err, PB_USAGE, "unknown command '%s'. Did you mean '%s'?", word,
                          near);
    return pb_err_set(&ctx->err, PB_USAGE, "unknown command '%s'", word);
}

static int unknown_option(struct pb_ctx *ctx, const char *word)
{
    const struct pb_opt *tables[] = {ctx->cmd ? ctx->cmd->options : NULL, pb_opts_global};
    char name[64] = "";
    struct pb_nearest n = PB_NEAREST_INIT(name);
    const char *near;

    strncat(name, word + strspn(word, "-"), sizeof name - 1);
    name[strcspn(name, "=")] = '\0';
    for (size_t t = 0; word[1] == '-' && t < 2; t++) {
        for (const struct pb_opt *o = tables[t]; o && o->name; o++)
            pb_nearest_offer(&n, o->name);
    }
    near = pb_nearest_result(&n);
    if (near)
        return pb_err_set(&ctx->err, PB_USAGE, "unknown option '--%s'. Did you mean '--%s'?", name,
                          near);
    return pb_err_set(&ctx->err, PB_USAGE, "unknown option '%s'", word);
}

static int set_target(struct parser *p, char *word, bool by_option)
{
    struct pb_ctx *ctx = p->ctx;

    if (ctx->target && p->target_by_option != by_option)
        return pb_err_set(&ctx->err, PB_USAGE, "two targets: '%s' and '%s'", ctx->target, word);
    ctx->target = word;
    p->target_by_option = by_option;
    return 0;
}

static int set_global(struct parser *p, const struct pb_opt *o, char *value)
{
    const struct {
        const char *name;
        bool *flag;
        const char **text;
    } globals[] = {
        {"verbose", &p->ctx->verbose, NULL},     {"help", &p->request->help, NULL},
        {"version", &p->request->version, NULL}, {"token", NULL, &p->ctx->token},
        {"token-file", NULL, &p->ctx->token_file}, {"store", NULL, &p->ctx->store},
        {"core", NULL, &p->ctx->core},           {"exe", NULL, &p->ctx->exe},
        {"plain", &p->ctx->plain, NULL},         {"cluster", &p->ctx->cluster, NULL},
    };

    if (strcmp(o->name, "target") == 0)
        return set_target(p, value, true);
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (strcmp(o->name, globals[i].name) != 0)
            continue;
        if (globals[i].flag)
            *globals[i].flag = true;
        else
            *globals[i].text = value;
    }
    return 0;
}

static bool is_choice(const char *choices, const char *word)
{
    size_t len = strlen(word);

    while (*choices) {
        size_t n = strcspn(choices, "|");

        if (n == len && memcmp(choices, word, n) == 0)
            return true;
        choices += n + (choices[n] == '|');
    }
    return false;
}

static int bad_value(struct pb_ctx *ctx, const struct pb_opt *o, const char *value,
                     const char *expected)
{
    return pb_err_set(&ctx->err, PB_USAGE, "--%s: '%s' is not %s", o->name, value, expected);
}

static int set_number(struct pb_ctx *ctx, const struct pb_opt *o, struct pb_opt_value *v,
                      const char *value)
{
    bool limited = o->min < o->max;
    char *end;

    if (o->type == PB_OPT_INT)
        v->num = (double)strtol(value, &end, 10);
    else
        v->num = strtod(value, &end);
    if (end == value || *end || !isfinite(v->num))
        return bad_value(ctx, o, value, o->type == PB_OPT_INT ? "a whole number" : "a number");
    if (limited && (v->num < o->min || v->num > o->max))
        return pb_err_set(&ctx->err, PB_USAGE, "--%s: %s is not between %g and %g", o->name, value,
                          o->min, o->max);
    return 0;
}

static int set_option(struct parser *p, const struct pb_opt *o, char *value)
{
    struct pb_ctx *ctx = p->ctx;
    const struct pb_opt *own = ctx->cmd ? ctx->cmd->options : NULL;
    struct pb_opt_value *v = NULL;

    for (size_t i = 0; own && own[i].name; i++) {
        if (o == &own[i])
            v = &ctx->values[i];
    }
    if (!v)
        return set_global(p, o, value);
    v->str = o->type == PB_OPT_MANY && v->set
                 ? pb_arena_printf(&ctx->arena, "%s\n%s", v->str, value)
                 : value;
    v->set = true;
    if (o->type == PB_OPT_CHOICE && !is_choice(o->choices, value))
        return pb_err_set(&ctx->err, PB_USAGE, "--%s: '%s' is not one of %s", o->name, value,
                          o->choices);
    if (o->type == PB_OPT_INT || o->type == PB_OPT_NUM)
        return set_number(ctx, o, v, value);
    return 0;
}

/* By long name (len bytes of it) or, when name is NULL, by letter. The command's own win. */
static const struct pb_opt *find_option(const struct pb_ctx *ctx, const char *name, size_t len,
                                        char letter)
{
    const struct pb_opt *tables[] = {ctx->cmd ? ctx->cmd->options : NULL, pb_opts_global};

    for (size_t t = 0; t < 2; t++) {
        for (const struct pb_opt *o = tables[t]; o && o->name; o++) {
            if (name ? strlen(o->name) == len && memcmp(o->name, name, len) == 0
                     : o->letter == letter)
                return o;
        }
    }
    return NULL;
}

static int missing_value(struct pb_ctx *ctx, const struct pb_opt *o)
{
    return pb_err_set(&ctx->err, PB_USAGE, "--%s needs a value: --%s=%s", o->name, o->name, o->arg);
}

static int parse_long(struct parser *p, char *word)
{
    size_t len = strcspn(word + 2, "=");
    char *value = word[2 + len] ? word + 2 + len + 1 : NULL;
    const struct pb_opt *o = find_option(p->ctx, word + 2, len, 0);

    if (!o)
        return unknown_option(p->ctx, word);
    if (o->type == PB_OPT_FLAG && value)
        return pb_err_set(&p->ctx->err, PB_USAGE, "--%s takes no value", o->name);
    if (o->type != PB_OPT_FLAG && !value) {
        if (!*p->argv)
            return missing_value(p->ctx, o);
        value = *p->argv++;
    }
    return set_option(p, o, value);
}

/* "-a", "-al", "-ofile", "-o file". */
static int parse_short(struct parser *p, char *word)
{
    for (char *c = word + 1; *c; c++) {
        const struct pb_opt *o = find_option(p->ctx, NULL, 0, *c);
        char *value = c + 1;

        if (!o)
            return unknown_option(p->ctx, pb_arena_printf(&p->ctx->arena, "-%s", c));
        if (o->type == PB_OPT_FLAG) {
            if (set_option(p, o, NULL) < 0)
                return -1;
            continue;
        }
        if (!*value) {
            if (!*p->argv)
                return missing_value(p->ctx, o);
            value = *p->argv++;
        } else if (*value == '=') {
            value++;
        }
        return set_option(p, o, value);
    }
    return 0;
}

static void begin_command(struct pb_ctx *ctx, const struct pb_cmd *cmd)
{
    size_t n = 0;

    while (cmd->options && cmd->options[n].name)
        n++;
    ctx->cmd = cmd;
    ctx->values = PB_NEW_N(&ctx->arena, struct pb_opt_value, n + 1);
}

/* Does the positional of this number start the line of another command? */
static bool is_verbatim(const struct pb_cmd *cmd, int number)
{
    const struct pb_positional *pos = cmd->positionals;

    for (; pos && pos->name && number > 0 && !pos->many; pos++)
        number--;
    return pos && pos->name && pos->verbatim;
}

/* "cluster query …" is query for all machines; "cluster attach" is an action of its own. */
static bool is_for_cluster(const char *word, const char *next)
{
    static const char *const own[] = {"attach", "nodes", "detach", "help"};

    if (strcmp(word, "cluster") != 0 || !next)
        return false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(next, own[i]) == 0)
            return false;
    return pb_cmd_find(next) || pb_sqltext_looks(next);
}

static int parse_word(struct parser *p, char *word)
{
    struct pb_ctx *ctx = p->ctx;
    const struct pb_cmd *cmd;

    if (ctx->cmd) {
        p->only_words = p->only_words || is_verbatim(ctx->cmd, ctx->nargs);
        ctx->args[ctx->nargs++] = word;
        return 0;
    }
    cmd = pb_cmd_find(word);
    if (cmd && is_for_cluster(word, *p->argv)) {
        ctx->cluster = true;
        return 0;
    }
    if (cmd) {
        begin_command(ctx, cmd);
        return 0;
    }
    /* SQL needs no command word. A target may look like it: then a command stands behind it. */
    if (pb_sqltext_looks(word) && !(*p->argv && pb_cmd_find(*p->argv))) {
        begin_command(ctx, pb_cmd_find("query"));
        ctx->args[ctx->nargs++] = word;
        return 0;
    }
    if (pb_synonym_find(word, true))
        return unknown_command(ctx, word);
    if (!ctx->target)
        return set_target(p, word, false);
    /* Of two words that are no command, the one that nearly is one was meant. */
    if (!p->target_by_option && pb_cli_target_kind(ctx->target) == PB_CLI_TARGET_TEXT &&
        pb_parse_nearest_command(ctx->target) && !pb_parse_nearest_command(word))
        return unknown_command(ctx, ctx->target);
    return unknown_command(ctx, word);
}

static int parse_words(struct parser *p)
{
    while (*p->argv) {
        char *word = *p->argv++;
        int rc;

        if (!p->only_words && strcmp(word, "--") == 0) {
            p->only_words = true;
            continue;
        }
        /* SQL may begin with a remark. */
        if (p->only_words || word[0] != '-' || !word[1] || pb_sqltext_looks(word))
            rc = parse_word(p, word);
        else if (word[1] == '-')
            rc = parse_long(p, word);
        else
            rc = parse_short(p, word);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* A target alone: what should be done with it? */
static int missing_command(struct parser *p)
{
    struct pb_ctx *ctx = p->ctx;

    if (!p->target_by_option && pb_cli_target_kind(ctx->target) == PB_CLI_TARGET_TEXT &&
        (pb_parse_nearest_command(ctx->target) || pb_synonym_find(ctx->target, false)))
        return unknown_command(ctx, ctx->target);
    return pb_err_set(&ctx->err, PB_USAGE, "no command for target '%s'. Try: probing %s backtrace",
                      ctx->target, ctx->target);
}

static int check_args(struct pb_ctx *ctx)
{
    const struct pb_positional *p = ctx->cmd->positionals;
    int n = 0;

    for (; p && p->name; p++) {
        if (n >= ctx->nargs && p->required)
            return pb_err_set(&ctx->err, PB_USAGE, "%s: %s is missing", ctx->cmd->name, p->name);
        if (n < ctx->nargs && p->choices && !is_choice(p->choices, ctx->args[n]))
            return pb_err_set(&ctx->err, PB_USAGE, "%s: '%s' is not one of %s", ctx->cmd->name,
                              ctx->args[n], p->choices);
        n = p->many ? ctx->nargs : n + 1;
    }
    if (n < ctx->nargs)
        return pb_err_set(&ctx->err, PB_USAGE, "%s: unexpected argument '%s'", ctx->cmd->name,
                          ctx->args[n]);
    return 0;
}

int pb_parse(struct pb_ctx *ctx, struct pb_request *ret, int argc, char **argv)
{
    struct parser p = {.ctx = ctx, .request = ret, .argv = argv + (argc > 0)};
    int rc;

    *ret = (struct pb_request){0};
    pb_argv_hide_tokens(&ctx->arena, p.argv);
    ctx->command_line = pb_argv_quote(&ctx->arena, p.argv);
    ctx->args = PB_NEW_N(&ctx->arena, char *, (size_t)argc + 1);
    rc = parse_words(&p);
    if (ret->help || ret->version) {
        /* Whoever asks for help gets it, whatever else is wrong. */
        ctx->err = (struct pb_err){0};
        return 0;
    }
    if (rc < 0)
        return -1;
    if (!ctx->cmd)
        return ctx->target ? missing_command(&p) : 0;
    return check_args(ctx);
}
