/*
 * probing token - the secrets that open TCP ports: show, make, list, rotate, revoke.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/home.h"
#include "cli/cmd.h"
#include "host/text/json.h"
#include "host/text/json_write.h"
#include "host/process/proc.h"
#include "node/access/token.h"
#include "display/table.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "scope", .type = PB_OPT_CHOICE, .arg = "SCOPE", .choices = "read|look|control",
     .help = "new: what it is good for (default: read)"},
    {.name = "pid", .type = PB_OPT_INT, .arg = "PID", .min = 1, .max = 2147483647,
     .help = "new: for this process alone (default: all of yours)"},
    {.name = "name", .type = PB_OPT_STR, .arg = "NAME",
     .help = "new: what it is called (default: token-1 and so on)"},
    {.name = "expires", .type = PB_OPT_STR, .arg = "TIME",
     .help = "new: how long it is good: 30m, 12h, 7d (default: until it is revoked)"},
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "table|json", .help = "How to print it"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "ACTION", .help = "nothing: show your own; new, list, rotate, revoke",
     .choices = "new|list|rotate|revoke"},
    {.name = "NAME", .help = "which one; 'default' is your own"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_token = {
    .name = "token",
    .summary = "Show, make and revoke the tokens that open a port",
    .details =
        "A port (`serve --listen`, `inject -l`, PROBING_PORT) answers whoever sends a token. Your\n"
        "own is made at first use, lies in a file that only you can read, and may do everything:\n"
        "`probing token` prints it. For others make tokens that may do less:\n"
        "  read     SQL, and stacks without local variables; no environment\n"
        "  look     those as well\n"
        "  control  eval, settings, loading probes, profiles\n"
        "A new token is printed once; only its hash is kept. Through the port of a process no\n"
        "token reaches another process. Rotating and revoking work at once.",
    .options = options,
    .positionals = positionals,
    .examples = "probing token                           # your own; made if need be\n"
                "probing token new --name ci --expires 7d  # may read, for a week\n"
                "probing token new --scope control --pid 4242 --name tune\n"
                "probing token list\n"
                "probing token rotate default            # a new one of your own\n"
                "probing token revoke ci\n",
    .run = run,
};

static bool wants_json(const struct pb_ctx *ctx)
{
    return strcmp(pb_opt_str(ctx, "format", "table"), "json") == 0;
}

static const char *when_text(struct pb_ctx *ctx, int64_t at)
{
    time_t t = (time_t)at;
    char text[32];
    struct tm tm;

    if (!at)
        return "never";
    localtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm);
    return pb_arena_strdup(&ctx->arena, text);
}

static void put_time(struct pb_buf *b, const char *key, int64_t at)
{
    time_t t = (time_t)at;
    char text[32];
    struct tm tm;

    pb_json_key(b, key);
    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    pb_json_string_or_null(b, at ? text : NULL);
}

/* secret: NULL where it is not to be told. */
static void put_json(struct pb_buf *b, const struct pb_token *t, const char *secret)
{
    pb_json_comma(b);
    pb_buf_putc(b, '{');
    pb_json_key(b, "name");
    pb_json_string(b, t->name);
    pb_json_key(b, "scope");
    pb_json_string(b, pb_right_name(t->right));
    pb_json_key(b, "process");
    pb_json_string_or_null(b, t->reach[0] ? t->reach : NULL);
    put_time(b, "created", t->created_s);
    put_time(b, "expires", t->expires_s);
    if (secret) {
        pb_json_key(b, "token");
        pb_json_string(b, secret);
    } else {
        pb_json_key(b, "expired");
        pb_json_bool(b, t->expires_s && t->expires_s <= (int64_t)time(NULL));
    }
    pb_buf_putc(b, '}');
}

/* The secret goes to stdout alone, so that a script can take it. */
static void print_token(struct pb_ctx *ctx, const struct pb_token *t, const char *secret)
{
    if (wants_json(ctx)) {
        put_json(&ctx->out.buf, t, secret);
        pb_print_puts(&ctx->out, "\n");
        return;
    }
    pb_print_f(&ctx->out, "%s\n", secret);
    pb_print_flush(&ctx->out, NULL);
    if (strcmp(t->name, PB_TOKEN_DEFAULT) == 0)
        return;
    pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena,
                                       "probing: token '%s': %s, %s%s, expires: %s. It is shown "
                                       "only now",
                                       t->name, pb_right_name(t->right),
                                       t->reach[0] ? "process " : "all your processes",
                                       t->reach, when_text(ctx, t->expires_s)));
}

static const struct pb_token own = {.name = PB_TOKEN_DEFAULT, .right = PB_RIGHT_CONTROL};

static int show_own(struct pb_ctx *ctx)
{
    char secret[PB_TOKEN_MAX];

    if (pb_token_own(secret, sizeof secret, true, &ctx->err) < 0)
        return -1;
    print_token(ctx, &own, secret);
    return 0;
}

/* "90s", "30m", "12h", "7d" as seconds; 0: makes no sense. */
static int64_t parse_time(const char *text)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    char *end;
    long n = strtol(text, &end, 10);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (n > 0 && n < 100000 && end != text && *end == units[i].unit && !end[1])
            return n * units[i].seconds;
    return 0;
}

static int check_name(struct pb_ctx *ctx, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            len = 0;
    if (len == 0 || len >= PB_TOKEN_NAME_MAX)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "--name: '%s' is not 1 to %d letters, digits, dots and dashes", name,
                          PB_TOKEN_NAME_MAX - 1);
    if (strcmp(name, PB_TOKEN_DEFAULT) == 0)
        return pb_err_set(&ctx->err, PB_USAGE, "--name: '%s' is your own token", name);
    return 0;
}

/* What the options say of the new one; its name may be left open. */
static int describe(struct pb_ctx *ctx, struct pb_token *t)
{
    const char *name = pb_opt_str(ctx, "name", ctx->nargs > 1 ? ctx->args[1] : "");
    const char *scope = pb_opt_str(ctx, "scope", "read"), *expires = pb_opt_str(ctx, "expires", "");
    pid_t pid = (pid_t)pb_opt_int(ctx, "pid", 0);
    uint64_t start = pid ? pb_home_start_time(pid) : 0;
    struct pb_proc_status status;

    *t = (struct pb_token){.created_s = (int64_t)time(NULL)};
    if (*name && check_name(ctx, name) < 0)
        return -1;
    strcpy(t->name, name);
    for (int i = 0; i <= PB_RIGHT_CONTROL; i++)
        if (strcmp(scope, pb_right_name((enum pb_right)i)) == 0)
            t->right = (enum pb_right)i;
    if (pid && (!start || pb_proc_status(&status, pid, NULL) < 0 || status.tgid != pid))
        return pb_err_set(&ctx->err, PB_NO_TARGET, "--pid: %d: no such process", (int)pid);
    if (pid)
        snprintf(t->reach, sizeof t->reach, "%d-%llu", (int)pid, (unsigned long long)start);
    if (*expires && !parse_time(expires))
        return pb_err_set(&ctx->err, PB_USAGE, "--expires: '%s' is no time such as 30m, 12h or 7d",
                          expires);
    t->expires_s = *expires ? t->created_s + parse_time(expires) : 0;
    return 0;
}

static int add(struct pb_tokens *all, void *arg, struct pb_err *err)
{
    struct pb_token *t = arg;

    for (int i = 1; !t->name[0]; i++) {
        char name[PB_TOKEN_NAME_MAX];

        snprintf(name, sizeof name, "token-%d", i);
        if (!pb_tokens_find(all, name))
            strcpy(t->name, name);
    }
    if (pb_tokens_find(all, t->name))
        return pb_err_set(err, PB_USAGE, "there is a token '%s' already; rotate or revoke it",
                          t->name);
    if (all->n == PB_TOKENS_MAX)
        return pb_err_set(err, PB_FAIL, "there are %d tokens already", PB_TOKENS_MAX);
    all->v[all->n++] = *t;
    return 0;
}

static int make_new(struct pb_ctx *ctx)
{
    char secret[PB_TOKEN_MAX];
    struct pb_token t;

    if (describe(ctx, &t) < 0 || pb_token_make(secret, &ctx->err) < 0)
        return -1;
    pb_sha256_text(secret, strlen(secret), t.hash);
    if (pb_tokens_change(add, &t, &ctx->err) < 0)
        return -1;
    print_token(ctx, &t, secret);
    return 0;
}

static int unknown(const char *name, struct pb_err *err)
{
    return pb_err_set(err, PB_NO_TARGET, "no token '%s': probing token list shows them", name);
}

/* arg: a token with the name and the new hash; gets the rest. */
static int replace(struct pb_tokens *all, void *arg, struct pb_err *err)
{
    struct pb_token *t = arg, *old = pb_tokens_find(all, t->name);

    if (!old)
        return unknown(t->name, err);
    memcpy(old->hash, t->hash, sizeof old->hash);
    old->created_s = (int64_t)time(NULL);
    *t = *old;
    return 0;
}

static int rotate(struct pb_ctx *ctx, const char *name)
{
    struct pb_token t = own;
    char secret[PB_TOKEN_MAX];

    if (strcmp(name, PB_TOKEN_DEFAULT) == 0) {
        if (pb_token_rotate_own(secret, &ctx->err) < 0)
            return -1;
    } else {
        if (check_name(ctx, name) < 0 || pb_token_make(secret, &ctx->err) < 0)
            return -1;
        strcpy(t.name, name);
        pb_sha256_text(secret, strlen(secret), t.hash);
        if (pb_tokens_change(replace, &t, &ctx->err) < 0)
            return -1;
    }
    print_token(ctx, &t, secret);
    return 0;
}

static int drop(struct pb_tokens *all, void *arg, struct pb_err *err)
{
    struct pb_token *t = pb_tokens_find(all, arg);

    if (!t)
        return unknown(arg, err);
    all->n--;
    memmove(t, t + 1, (size_t)(all->v + all->n - t) * sizeof *t);
    return 0;
}

static int revoke(struct pb_ctx *ctx, char *name)
{
    if (strcmp(name, PB_TOKEN_DEFAULT) == 0)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "your own token cannot be revoked, only rotated: probing token rotate "
                          PB_TOKEN_DEFAULT);
    if (pb_tokens_change(drop, name, &ctx->err) < 0)
        return -1;
    pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: token '%s' is revoked", name));
    return 0;
}

static void list_table(struct pb_ctx *ctx, const struct pb_tokens *all, bool has_own)
{
    static const struct pb_column columns[] = {
        {.title = "name"}, {.title = "scope"}, {.title = "process"}, {.title = "created"},
        {.title = "expires"}};
    enum { N = sizeof columns / sizeof *columns };
    struct pb_table table = {.columns = columns, .ncolumns = N, .nrows = all->n + has_own};
    const char **cell = PB_NEW_N(&ctx->arena, const char *, table.nrows * N + 1);

    table.cells = cell;
    for (size_t i = 0; i < table.nrows; i++, cell += N) {
        const struct pb_token *t = has_own && i == 0 ? &own : &all->v[i - has_own];
        bool expired = t->expires_s && t->expires_s <= (int64_t)time(NULL);

        cell[0] = t->name;
        cell[1] = pb_right_name(t->right);
        cell[2] = t->reach[0] ? pb_arena_strndup(&ctx->arena, t->reach, strcspn(t->reach, "-"))
                              : "all";
        cell[3] = t->created_s ? when_text(ctx, t->created_s) : "";
        cell[4] = expired ? "expired" : when_text(ctx, t->expires_s);
    }
    pb_table_print(&ctx->out, &table);
}

static int list(struct pb_ctx *ctx)
{
    struct pb_tokens all;
    char secret[PB_TOKEN_MAX];
    bool has_own = pb_token_own(secret, sizeof secret, false, NULL) == 0;

    if (pb_tokens_read(&all, &ctx->arena, &ctx->err) < 0)
        return -1;
    if (!wants_json(ctx)) {
        list_table(ctx, &all, has_own);
        return 0;
    }
    pb_buf_putc(&ctx->out.buf, '[');
    if (has_own)
        put_json(&ctx->out.buf, &own, NULL);
    for (size_t i = 0; i < all.n; i++)
        put_json(&ctx->out.buf, &all.v[i], NULL);
    pb_print_puts(&ctx->out, "]\n");
    return 0;
}

static int run(struct pb_ctx *ctx)
{
    static const char *const of_new[] = {"scope", "pid", "name", "expires"};
    const char *action = ctx->nargs ? ctx->args[0] : "";
    bool is_new = strcmp(action, "new") == 0;

    for (size_t i = 0; i < sizeof of_new / sizeof *of_new && !is_new; i++)
        if (pb_opt_flag(ctx, of_new[i]))
            return pb_err_set(&ctx->err, PB_USAGE, "--%s goes with: probing token new", of_new[i]);
    if (!*action)
        return show_own(ctx);
    if (is_new)
        return make_new(ctx);
    if (strcmp(action, "list") == 0)
        return ctx->nargs > 1
                   ? pb_err_set(&ctx->err, PB_USAGE, "token list: unexpected '%s'", ctx->args[1])
                   : list(ctx);
    if (ctx->nargs < 2)
        return pb_err_set(&ctx->err, PB_USAGE, "token %s: NAME is missing", action);
    return strcmp(action, "rotate") == 0 ? rotate(ctx, ctx->args[1]) : revoke(ctx, ctx->args[1]);
}
