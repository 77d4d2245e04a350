/*
 * probing [TARGET] diagnose - what is wrong, on which rank, at which line, and why.
 */
#include "cli/diagnose/diagnose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/embed.h"
#include "display/amount.h"
#include "display/value_text.h"
#include "host/text/number.h"

static int run(struct pb_ctx *ctx);

const struct pb_opt pb_diagnose_options[] = {
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "text|json", .help = "text (default) or json"},
    {.name = "json", .help = "the same as -f json"},
    {.name = "evidence", .letter = 'v', .help = "the rows that a verdict stands on, and their SQL"},
    {.name = "watch", .letter = 'w', .help = "keep looking, and speak when something begins"},
    {.name = "look", .type = PB_OPT_NUM, .arg = "SECS", .min = 1, .max = 600,
     .help = "how long to look at most before it is called healthy (14)"},
    {.name = "graph", .type = PB_OPT_CHOICE, .arg = "FORM", .choices = "text|dot",
     .help = "who waits for whom, as text or for Graphviz"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_diagnose = {
    .name = "diagnose",
    .aliases = "diag",
    .summary = "Say what is wrong: hang, slow rank, leak, crash; which line, and why",
    .details =
        "Looks at a process, a job or all Python processes of this machine several times, a\n"
        "second apart, from outside: nothing is loaded. A verdict names the process or rank to\n"
        "blame, the innermost line of its own code there, how that is known and how sure\n"
        "it is, and who only waits for it. It ends as soon as it is sure, at the latest after\n"
        "--look seconds. Exit code: 0 nothing is wrong, 10 there is a verdict.\n"
        "\n"
        "The rules are SQL over python.waits (share/verdicts); `SELECT * FROM verdicts` runs them.",
    .options = pb_diagnose_options,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .lately = true,
    .examples = "probing 4242 diagnose          # a process\n"
                "probing job:train.py diagnose  # all ranks of a job on this machine\n"
                "probing 4242 diagnose -v       # with the rows it stands on\n"
                "probing diagnose -w            # speak when something begins\n"
                "probing 4242 diagnose --graph dot | dot -Tsvg > waits.svg\n",
    .run = run,
};

PB_EMBED(pb_diagnose_quiet, "src/cli/scripts/diagnose_quiet.sql")
PB_EMBED(pb_diagnose_healthy, "src/cli/scripts/diagnose_healthy.sql")

#define LOOK_S 14.0      /* how long at most */
#define LOOK_TIMES_MAX 3 /* on a machine so busy that LOOKS_FULL take longer than LOOK_S */
#define LOOK_PAUSE_MS 900
#define LOOKS_MIN 4      /* before it is called healthy because nothing stands still */
#define LOOKS_FULL 11    /* before it is called healthy because the time is up */
#define KNOWN_MAX 64

/* Columns of the question. */
enum { AT_KIND, AT_CLASS, AT_CONFIDENCE, AT_RANKS, AT_PID, AT_TID, AT_FILE, AT_LINE, AT_FUNC,
       AT_SINCE, AT_WHAT, AT_WHY, AT_NEXT, AT_VICTIMS, AT_RULE, AT_EVIDENCE, AT_HOST, AT_AGO,
       AT_REFINE, NCELLS };

static const char question[] =
    "SELECT kind, class, confidence, ranks, pid, tid, file, line, func, since, what, why, next, "
    "victims, rule, evidence, host, epoch(now() - since), refine FROM verdicts";

static const char *text_in(const struct pb_json *cell)
{
    return cell->type == PB_J_STRING ? cell->s : NULL;
}

static int64_t whole_in(const struct pb_json *cell)
{
    return cell->type == PB_J_INT ? cell->v.i : 0;
}

static void read_verdict(const struct pb_json *c, struct pb_verdict *ret)
{
    *ret = (struct pb_verdict){
        .kind = text_in(&c[AT_KIND]), .class = text_in(&c[AT_CLASS]),
        .confidence = text_in(&c[AT_CONFIDENCE]), .host = text_in(&c[AT_HOST]),
        .file = text_in(&c[AT_FILE]), .func = text_in(&c[AT_FUNC]),
        .since = text_in(&c[AT_SINCE]), .what = text_in(&c[AT_WHAT]), .why = text_in(&c[AT_WHY]),
        .next = text_in(&c[AT_NEXT]), .rule = text_in(&c[AT_RULE]),
        .evidence = text_in(&c[AT_EVIDENCE]),
        .refine = text_in(&c[AT_REFINE]), .pid = whole_in(&c[AT_PID]),
        .tid = whole_in(&c[AT_TID]), .line = whole_in(&c[AT_LINE]),
        .since_s = c[AT_AGO].type == PB_J_REAL  ? c[AT_AGO].v.d
                   : c[AT_AGO].type == PB_J_INT ? (double)c[AT_AGO].v.i
                                                : 0,
        .ranks = text_in(&c[AT_RANKS]), .victims = text_in(&c[AT_VICTIMS]),
    };
}

static bool of_kind(const struct pb_verdict *v, const char *kinds)
{
    return v->kind && v->class && v->confidence && v->what && (!kinds || strstr(kinds, v->kind));
}

static int look(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds,
                struct pb_verdict **ret, size_t *ret_n)
{
    const struct pb_json **rows;
    size_t n = 0;

    *ret_n = 0;
    if (pb_nodelink_rows(ctx, link, question, &rows, &n) < 0)
        return -1;
    *ret = PB_NEW_N(&ctx->arena, struct pb_verdict, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct pb_verdict v;

        if (rows[i]->n < NCELLS)
            continue;
        read_verdict(rows[i]->items, &v);
        if (of_kind(&v, kinds))
            (*ret)[(*ret_n)++] = v;
    }
    return 0;
}

/* A question that is too dear for every look: where exactly, once it is known that it is so. */
static void refine(struct pb_ctx *ctx, struct pb_nodelink *link, struct pb_verdict *v)
{
    const char *scope = ctx->scope;
    const struct pb_json **rows;
    size_t n = 0;

    if (!v->refine)
        return;
    ctx->scope = pb_arena_printf(&ctx->arena, "%lld", (long long)v->pid);
    if (pb_nodelink_rows(ctx, link, v->refine, &rows, &n) == 0 && n == 1 && rows[0]->n == 4) {
        v->file = text_in(&rows[0]->items[0]);
        v->line = whole_in(&rows[0]->items[1]);
        v->func = text_in(&rows[0]->items[2]);
        v->why = text_in(&rows[0]->items[3]);
    }
    ctx->err = (struct pb_err){0};
    ctx->scope = scope;
}

static bool is_same(const struct pb_verdict *a, const struct pb_verdict *b)
{
    return strcmp(a->kind, b->kind) == 0 && strcmp(a->class, b->class) == 0 && a->pid == b->pid &&
           a->tid == b->tid;
}

/* What stands in both looks: a verdict of one moment is none. */
static size_t keep_both(struct pb_verdict *v, size_t n, const struct pb_verdict *before, size_t m)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++)
            if (is_same(&v[i], &before[k])) {
                v[kept++] = v[i];
                break;
            }
    return kept;
}

static int is_quiet(struct pb_ctx *ctx, struct pb_nodelink *link, bool *ret)
{
    const struct pb_json **rows;
    size_t n = 0;

    if (pb_nodelink_rows(ctx, link, pb_diagnose_quiet, &rows, &n) < 0)
        return -1;
    *ret = n == 1 && rows[0]->n == 1 && whole_in(&rows[0]->items[0]) == 0;
    return 0;
}

static void pause_ms(long ms)
{
    const struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&nap, NULL);
}

/* Looks until two looks say the same, or nothing stands still, or the time is up. */
static int find(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds,
                struct pb_verdict **ret, size_t *ret_n)
{
    uint64_t began = pb_clock_ns(), look_ns = (uint64_t)(pb_opt_num(ctx, "look", LOOK_S) * 1e9);
    struct pb_verdict *before = NULL;
    size_t m = 0;

    for (int i = 1;; i++) {
        bool quiet = false, late;
        uint64_t spent;

        if (look(ctx, link, kinds, ret, ret_n) < 0)
            return -1;
        spent = pb_clock_ns() - began;
        late = spent >= look_ns && (i > LOOKS_FULL || spent >= LOOK_TIMES_MAX * look_ns);
        if (i > 1 && keep_both(*ret, *ret_n, before, m)) {
            *ret_n = keep_both(*ret, *ret_n, before, m);
            return 0;
        }
        if (!*ret_n && i >= LOOKS_MIN && !late && is_quiet(ctx, link, &quiet) < 0)
            return -1;
        if (late || quiet) {
            *ret_n = 0;
            return 0;
        }
        before = *ret;
        m = *ret_n;
        /* Not at a pace of its own, which a job's steps may have, too. */
        pause_ms(LOOK_PAUSE_MS - 300 + (long)(pb_clock_ns() / 1000 % 600));
    }
}

static void show_counts(struct pb_ctx *ctx, const struct pb_json *items)
{
    size_t processes = (size_t)whole_in(&items[0]), threads = (size_t)whole_in(&items[1]);

    pb_print_f(&ctx->out, ": %zu process%s, %zu Python thread%s, %lld running", processes,
               pb_plural(processes, "es"), threads, pb_plural(threads, "s"),
               (long long)whole_in(&items[2]));
}

static int say_healthy(struct pb_ctx *ctx, struct pb_nodelink *link)
{
    const struct pb_json **rows;
    const char *ms;
    size_t n = 0;

    if (pb_nodelink_rows(ctx, link, pb_diagnose_healthy, &rows, &n) < 0)
        return -1;
    ms = n == 1 && rows[0]->n == 5 ? rows[0]->items[4].s : NULL;
    pb_print_style(&ctx->out, PB_GREEN);
    pb_print_puts(&ctx->out, "healthy");
    pb_print_style(&ctx->out, PB_PLAIN);
    if (n == 1 && rows[0]->n == 5 && rows[0]->items[3].type == PB_J_INT)
        pb_print_f(&ctx->out, ": step %s, %s ms a step",
                   pb_amount_count(&ctx->arena, rows[0]->items[3].v.i, false),
                   ms ? pb_show_real(&ctx->arena, atof(ms)) : "?");
    else if (n == 1 && rows[0]->n == 5)
        show_counts(ctx, rows[0]->items);
    pb_print_puts(&ctx->out, "\n");
    return 0;
}

int pb_verdicts_show(struct pb_ctx *ctx, struct pb_nodelink *link, const struct pb_verdict *v,
                     size_t n)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;

    if (json)
        return pb_verdicts_json(ctx, link, v, n);
    if (!n)
        return say_healthy(ctx, link);
    for (size_t i = 0; i < n; i++) {
        pb_verdict_text(ctx, &v[i]);
        if (pb_opt_flag(ctx, "evidence") && pb_verdict_evidence(ctx, link, &v[i]) < 0)
            return -1;
    }
    return 0;
}

/* What was said already; a verdict that goes away and comes back is said again. */
struct known {
    struct pb_verdict v[KNOWN_MAX];
    size_t n;
};

static int say_new(struct pb_ctx *ctx, struct pb_nodelink *link, struct known *known,
                   const struct pb_verdict *v, size_t n)
{
    struct known now = {.n = 0};

    for (size_t i = 0; i < n && i < KNOWN_MAX; i++) {
        bool old = false;

        for (size_t k = 0; k < known->n; k++)
            old = old || is_same(&v[i], &known->v[k]);
        if (!old) {
            struct pb_verdict said = v[i];

            refine(ctx, link, &said);
            if (pb_verdicts_show(ctx, link, &said, 1) < 0)
                return -1;
        }
        now.v[now.n++] = v[i];
    }
    *known = now;
    return pb_print_flush(&ctx->out, &ctx->err);
}

#define WATCH_PAUSE_MS 4000

/* One look; what is new in it is said. Verdicts live in ctx->arena. */
static int watch_once(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds,
                      struct known *known, struct pb_watched *watched, struct pb_verdict **before,
                      size_t *m)
{
    struct pb_verdict *v = NULL;
    size_t n, kept;

    if (look(ctx, link, kinds, &v, &n) < 0) {
        if (ctx->err.code != PB_NO_TARGET || !watched->any)
            return -1;
        ctx->err = (struct pb_err){0}; /* it has ended, and left nothing to look at */
    }
    kept = keep_both(v, n, *before, *m);
    if (say_new(ctx, link, known, v, kept) < 0)
        return -1;
    ctx->exit_code = kept ? PB_EXIT_VERDICT : 0;
    if (pb_watched_say_ends(ctx, link, kinds, watched, v, n) < 0)
        return -1;
    *before = v;
    *m = n;
    return 0;
}

/* It may run for weeks: an arena for each look, freed when the look after the next begins. */
static int watch(struct pb_ctx *ctx, struct pb_nodelink *link, const char *kinds)
{
    struct pb_arena base = ctx->arena, looks[2] = {PB_ARENA_INIT, PB_ARENA_INIT};
    struct known known = {.n = 0};
    struct pb_watched watched;
    struct pb_verdict *before = NULL;
    size_t m = 0;
    int rc = 0;

    pb_watched_open(&watched, ctx);
    for (int i = 0; rc == 0 && !ctx->out.broken && !ctx->interrupted; i = !i) {
        pb_arena_finish(&looks[i]);
        ctx->arena = (struct pb_arena)PB_ARENA_INIT;
        rc = watch_once(ctx, link, kinds, &known, &watched, &before, &m);
        looks[i] = ctx->arena;
        if (watched.any && !watched.n)
            break;
        if (rc == 0)
            pause_ms(WATCH_PAUSE_MS);
    }
    pb_watched_close(&watched);
    ctx->note = NULL; /* was in one of them */
    pb_arena_finish(&looks[0]);
    pb_arena_finish(&looks[1]);
    ctx->arena = base;
    return rc;
}

int pb_diagnose(struct pb_ctx *ctx, const char *kinds)
{
    const char *graph = pb_opt_str(ctx, "graph", NULL);
    struct pb_nodelink link = {0};
    struct pb_verdict *v = NULL;
    size_t n = 0;
    int rc;

    if (pb_nodelink_open(ctx, &link) < 0)
        return -1;
    if (graph) {
        rc = pb_diagnose_graph(ctx, &link, strcmp(graph, "dot") == 0);
    } else if (pb_opt_flag(ctx, "watch")) {
        rc = watch(ctx, &link, kinds);
    } else {
        rc = find(ctx, &link, kinds, &v, &n);
        if (rc == 0 && !n) {
            v = PB_NEW_N(&ctx->arena, struct pb_verdict, 1);
            rc = pb_diagnose_ended(ctx, &link, kinds, v, &n);
        }
        for (size_t i = 0; rc == 0 && i < n; i++)
            refine(ctx, &link, &v[i]);
        if (rc == 0)
            rc = pb_verdicts_show(ctx, &link, v, n);
        if (rc == 0 && n)
            ctx->exit_code = PB_EXIT_VERDICT;
    }
    pb_nodelink_close(&link);
    return rc;
}

static int run(struct pb_ctx *ctx)
{
    return pb_diagnose(ctx, NULL);
}
