/*
 * probing TARGET repl - a Python prompt inside a process.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/prompt/lineedit.h"
#include "cli/client/link.h"
#include "cli/prompt/magic.h"
#include "host/os/own_path.h"

#define COMPLETE_TIMEOUT_MS 3000

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "timeout", .type = PB_OPT_NUM, .arg = "SECS", .min = 0.05, .max = 86400,
     .help = "how long a statement may take (default: the setting eval.timeout, 30)"},
    {.name = "main", .help = "run statements on the main thread; the job waits meanwhile"},
    {.name = "frame", .type = PB_OPT_STR, .arg = "FRAME",
     .help = "inside a frame: a number as in backtrace, 0 is the innermost, or the name of a "
             "function that runs; assignments stay at the prompt"},
    {.name = "tid", .type = PB_OPT_INT, .arg = "TID", .min = 1, .max = 2147483647,
     .help = "whose frame; the main thread's unless said"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_repl = {
    .name = "repl",
    .aliases = "r",
    .summary = "Interactive Python in the target process",
    .details =
        "A prompt in the namespace of the target's __main__, with history, tab completion from\n"
        "the live process, blocks over several lines and `_` for the last value. Ctrl-C ends the\n"
        "statement, not the job; Ctrl-D or exit leaves. %help lists the prompt's commands.\n"
        "Ctrl-R searches the history, Ctrl-_ undoes; keys can be changed in ~/.editrc (bind -v:\n"
        "those of vi).\n"
        "Loaded modules and those of the standard library need no import: gc.collect().\n"
        "A frame is held until the prompt ends, even if its function has returned; its variables\n"
        "are read anew for each statement.\n"
        "Piped input runs as a script, statement by statement, up to the first exception.",
    .options = options,
    .target = PB_TARGET_PROCESS,
    .remote = true,
    .examples = "probing 4242 repl                # >>> model.training\n"
                "probing 4242 repl --frame train  # >>> batch.shape\n"
                "echo 'len(q)' | probing 4242 repl  # as a script\n",
    .run = run,
};

struct repl {
    struct pb_ctx *ctx;
    struct pb_agent agent;
    struct pb_lineedit edit;
    struct pb_link_eval how;
    struct pb_buf statement; /* lines of it so far */
    bool failed;
};

/* ${XDG_STATE_HOME:-~/.local/state}/probing/history; NULL when there is no such place. */
static const char *history_path(struct pb_arena *a)
{
    const char *state = getenv("XDG_STATE_HOME"), *home;
    char kept[PATH_MAX], *path, *p;

    if (state && *state == '/' && pb_own_path(state))
        path = pb_arena_printf(a, "%s/probing/history", state);
    else if ((home = pb_own_home(kept, sizeof kept)))
        path = pb_arena_printf(a, "%s/.local/state/probing/history", home);
    else
        return NULL;
    for (p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return NULL;
        *p = '/';
    }
    return path;
}

struct words {
    struct pb_buf text;
};

static void collect(int fd, const void *data, size_t len, void *arg)
{
    if (fd == 1)
        pb_buf_add(&((struct words *)arg)->text, data, len);
}

static size_t split_lines(const char *text, struct pb_arena *a, char ***ret)
{
    size_t n = 0, cap = 0;

    while (text && *text) {
        size_t len = strcspn(text, "\n");

        if (n == cap) {
            *ret = pb_arena_grow(a, *ret, cap * sizeof **ret, (cap + 64) * sizeof **ret);
            cap += 64;
        }
        (*ret)[n++] = pb_text_clean(a, pb_arena_strndup(a, text, len));
        text += len + (text[len] == '\n');
    }
    return n;
}

static size_t complete(const char *text, struct pb_arena *a, char ***ret, void *arg)
{
    struct repl *r = arg;
    struct words words = {0};
    enum pb_wire_result result;
    struct pb_err err = {0};
    size_t n = 0;

    if (text[0] == '%')
        return pb_magic_complete(text, a, ret);
    if (pb_agent_ask(&r->agent, PB_WIRE_COMPLETE, NULL, 0, text, strlen(text),
                     COMPLETE_TIMEOUT_MS, collect, &words, a, &result, NULL, &err) == 0)
        n = split_lines(words.text.data, a, ret);
    pb_buf_finish(&words.text);
    return n;
}

/* An error that does not end the prompt. */
static void report(struct pb_ctx *ctx)
{
    if (ctx->err.msg[0]) {
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s", ctx->err.msg));
        if (ctx->note)
            (void)!write(STDERR_FILENO, ctx->note, strlen(ctx->note));
    }
    ctx->err = (struct pb_err){0};
    ctx->note = NULL;
}

/* Runs the statement. 1: it needs more lines; 0: done; -1: the prompt ends. */
static int execute(struct repl *r)
{
    enum pb_wire_result result;
    const char *why;

    r->how.code = r->statement.data;
    r->how.len = r->statement.len;
    if (pb_link_eval(r->ctx, &r->agent, &r->how, &result, &why) < 0)
        return -1;
    if (result == PB_WIRE_MORE)
        return 1;
    pb_buf_clear(&r->statement);
    if (result == PB_WIRE_OK)
        return 0;
    if (result == PB_WIRE_EXCEPTION && why && strcmp(why, "SystemExit") == 0)
        return -1;
    r->failed = true;
    pb_link_explain(r->ctx, "repl", &r->how, &r->agent, result, why);
    if (!r->edit.terminal)
        return -1;
    report(r->ctx);
    return 0;
}

static bool is_exit(const char *line)
{
    static const char *const words[] = {"exit", "quit", "exit()", "quit()", "%exit", "%quit"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(line, words[i]) == 0)
            return true;
    return false;
}

/*
 * In a script: does this line belong to the statement above it? What starts at
 * the margin does not, but for the other half of a compound statement.
 */
static bool continues_statement(const struct pb_buf *statement, const char *line)
{
    static const char *const words[] = {"else", "elif", "except", "finally"};
    const char *last = memrchr(statement->data, '\n', statement->len);

    if (line[0] == '\0' || line[0] == ' ' || line[0] == '\t' || line[0] == '#')
        return true;
    if ((last ? last[1] : statement->data[0]) == '@') /* a decorator has its function below */
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(line, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* A script does not end its blocks with an empty line: the next statement ends them. */
static int end_block(struct repl *r)
{
    int rc;

    pb_buf_putc(&r->statement, '\n');
    rc = execute(r);
    if (rc == 1)
        r->statement.data[--r->statement.len] = '\0';
    return rc;
}

/* A line that starts something. */
static int start_statement(struct repl *r, const char *line)
{
    if (is_exit(line))
        return -1;
    if (line[0] == '%') {
        if (pb_magic_run(r->ctx, &r->agent, line) < 0) {
            r->failed = true;
            report(r->ctx);
        }
        return 0;
    }
    if (!line[strspn(line, " \t")])
        return 0;
    pb_buf_puts(&r->statement, line);
    return execute(r) < 0 ? -1 : 0;
}

static int handle_line(struct repl *r, const char *line)
{
    bool script = !r->edit.terminal;

    if (r->statement.len && script) {
        if (continues_statement(&r->statement, line)) {
            pb_buf_putc(&r->statement, '\n');
            pb_buf_puts(&r->statement, line);
            return 0;
        }
        if (end_block(r) < 0)
            return -1;
    }
    if (!r->statement.len)
        return start_statement(r, line);
    pb_buf_putc(&r->statement, '\n');
    pb_buf_puts(&r->statement, line);
    return execute(r) < 0 ? -1 : 0;
}

static void prompt_loop(struct repl *r)
{
    struct pb_buf line = PB_BUF_INIT;

    for (;;) {
        enum pb_line got =
            pb_lineedit_read(&r->edit, r->statement.len ? "... " : ">>> ", &line);

        if (got == PB_LINE_END)
            break;
        if (got == PB_LINE_INTERRUPT) {
            pb_buf_clear(&r->statement);
            continue;
        }
        pb_lineedit_remember(&r->edit, line.data ? line.data : "");
        if (handle_line(r, line.data ? line.data : "") < 0)
            goto out;
    }
    /* The last block of a script; what is still open then is an error to be seen. */
    if (r->statement.len && !r->edit.terminal && end_block(r) == 1) {
        r->how.flags &= ~(uint32_t)PB_WIRE_REPL;
        execute(r);
    }
out:
    pb_buf_finish(&line);
}

static void print_banner(struct repl *r)
{
    struct pb_arena *a = &r->ctx->arena;
    const char *python = pb_agent_value(r->agent.hello, "python", a);

    if (r->edit.terminal)
        pb_ctx_notice(r->ctx, pb_arena_printf(a, "Python %s in %s%s; %%help for help, Ctrl-D to "
                                                 "leave", python ? python : "",
                                              r->ctx->remote ? "" : "process ",
                                              pb_link_who(r->ctx)));
}

static int run(struct pb_ctx *ctx)
{
    struct repl r = {.ctx = ctx};

    if (pb_link_options(ctx, &r.how) < 0 || pb_link_open(ctx, &r.agent) < 0)
        return -1;
    r.how.flags |= PB_WIRE_REPL;
    pb_lineedit_open(&r.edit, history_path(&ctx->arena));
    r.how.stay = r.edit.terminal;
    r.edit.complete = complete;
    r.edit.arg = &r;
    print_banner(&r);
    prompt_loop(&r);
    pb_buf_finish(&r.statement);
    pb_agent_close(&r.agent);
    if (r.failed && !r.edit.terminal && ctx->err.code == PB_OK)
        ctx->err.code = PB_FAIL;
    pb_lineedit_close(&r.edit);
    return ctx->err.code == PB_OK ? 0 : -1;
}
