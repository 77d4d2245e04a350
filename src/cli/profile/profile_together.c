#include "cli/profile/profile_together.h"

#include <string.h>

#include "cli/client/link.h"
#include "cli/client/nodelink.h"

/* Until each of the ranks has been told: one of them, and each more. */
#define LEAD_S 2.0
#define LEAD_EACH_S 0.02
/* Where nothing is known of how long a step takes. */
#define STEP_S 1.0
/* Ranks are told by one process each, all at once. */
#define RANKS_MAX 128

static const char sql[] =
    "SELECT host, pid, max(step) AS step, max(comm_seq) AS seq, min(comm_seq) AS seq_before, "
    "count(comm_seq) AS seqs, avg(step_ms) AS step_ms, min(step_source) AS source, "
    "max(step_source) AS source_too FROM python.training_logs "
    "WHERE timestamp > now() - INTERVAL 10 MINUTE GROUP BY host, pid";
enum { C_HOST, C_PID, C_STEP, C_SEQ, C_SEQ_BEFORE, C_SEQS, C_STEP_MS, C_SOURCE, C_SOURCE_TOO, NC };

/* What is known of all ranks that have made steps. */
struct agreeing {
    struct pb_ctx *ctx;
    const struct pb_json **rows;
    size_t nrows, found;
    bool *makes_steps; /* by process of ctx->job */
    int64_t step, seq; /* where the foremost of them is */
    int64_t seq_each;  /* collectives in a step; 0: not known of all */
    double step_s;
    bool comparable;   /* all number their steps by the job itself */
};

static int64_t whole_at(const struct pb_json *row, size_t i, int64_t missing)
{
    return row->items[i].type == PB_J_INT ? row->items[i].v.i : missing;
}

static const char *text_at(const struct pb_json *row, size_t i)
{
    return row->items[i].type == PB_J_STRING ? row->items[i].s : "";
}

/* An epoch's place alone, or the moment of injection, is not the same number on all ranks. */
static bool is_of_the_job(const struct pb_json *row)
{
    const char *source = text_at(row, C_SOURCE);

    return strcmp(source, text_at(row, C_SOURCE_TOO)) == 0 &&
           (strcmp(source, "optimizer") == 0 || strcmp(source, "sampler") == 0 ||
            strcmp(source, "expression") == 0);
}

static void add_row(struct agreeing *g, const struct pb_json *row)
{
    int64_t step = whole_at(row, C_STEP, -1), seq = whole_at(row, C_SEQ, -1);
    int64_t seqs = whole_at(row, C_SEQS, 0), before = whole_at(row, C_SEQ_BEFORE, seq);
    int64_t each = seqs > 1 && seq >= 0 ? (seq - before + seqs - 2) / (seqs - 1) : 0;
    const struct pb_json *ms = &row->items[C_STEP_MS];
    double s = ms->type == PB_J_REAL ? ms->v.d / 1e3 : 0;

    g->seq_each = !g->found || each < g->seq_each ? each : g->seq_each;
    g->step = step > g->step ? step : g->step;
    g->seq = seq > g->seq ? seq : g->seq;
    g->step_s = s > g->step_s ? s : g->step_s;
    g->comparable = (g->found == 0 || g->comparable) && is_of_the_job(row);
    g->found++;
}

static void match(struct agreeing *g)
{
    struct pb_ctx *ctx = g->ctx;

    for (size_t i = 0; i < ctx->njob; i++)
        for (size_t k = 0; k < g->nrows && !g->makes_steps[i]; k++) {
            const struct pb_json *row = g->rows[k];
            const char *host = ctx->job[i].host;

            if (row->type != PB_J_ARRAY || row->n != NC ||
                whole_at(row, C_PID, -1) != ctx->job[i].pid ||
                (host && strcmp(host, text_at(row, C_HOST)) != 0))
                continue;
            g->makes_steps[i] = true;
            add_row(g, row);
        }
}

/* Workers of a loader belong to a job on this machine, and train nothing. */
static void leave_out_others(struct agreeing *g)
{
    struct pb_ctx *ctx = g->ctx;
    size_t kept = 0, was = ctx->njob;

    for (size_t i = 0; i < was; i++)
        if (g->makes_steps[i])
            ctx->job[kept++] = ctx->job[i];
    if (!kept || kept == was)
        return;
    ctx->njob = kept;
    pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %zu process%s of %zu make%s training "
                                                    "steps; the others are left out", kept,
                                       kept == 1 ? "" : "es", was, kept == 1 ? "s" : ""));
}

/* The processes of a job on this machine, as a target for the node. */
static const char *pids_of(struct pb_ctx *ctx)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *text;

    for (size_t i = 0; i < ctx->njob; i++)
        pb_buf_printf(&b, "%s%d?", i ? "," : "", (int)ctx->job[i].pid);
    text = pb_arena_strdup(&ctx->arena, b.data ? b.data : "");
    pb_buf_finish(&b);
    return text;
}

static int ask(struct agreeing *g)
{
    struct pb_ctx *ctx = g->ctx;
    const char *scope = ctx->scope;
    struct pb_nodelink n;
    int rc;

    if (!ctx->cluster)
        ctx->scope = pids_of(ctx);
    rc = pb_nodelink_open(ctx, &n);
    if (rc == 0)
        rc = pb_nodelink_rows(ctx, &n, sql, &g->rows, &g->nrows);
    pb_nodelink_close(&n);
    ctx->scope = scope;
    return rc;
}

static void choose(struct agreeing *g)
{
    struct pb_ctx *ctx = g->ctx;
    double step_s = g->step_s > 0 ? g->step_s : STEP_S;
    double lead = LEAD_S + LEAD_EACH_S * (double)ctx->njob;
    int64_t ahead = 2 + (int64_t)(lead / step_s);

    ctx->agreed_s = (double)ahead * step_s;
    if (g->seq >= 0 && g->seq_each > 0)
        ctx->agreed = pb_arena_printf(&ctx->arena, "(1, %lld, %lld)",
                                      (long long)(g->seq + ahead * g->seq_each),
                                      (long long)g->seq_each);
    else if (g->comparable)
        ctx->agreed = pb_arena_printf(&ctx->arena, "(0, %lld, 1)", (long long)(g->step + ahead));
}

int pb_profile_agree(struct pb_ctx *ctx)
{
    struct agreeing g = {.ctx = ctx, .step = -1, .seq = -1};

    if (ctx->njob > RANKS_MAX)
        return pb_err_set(&ctx->err, PB_USAGE, "profile is for %d ranks at once; these are %zu: "
                                               "name some, ranks:0-%d", RANKS_MAX, ctx->njob,
                          RANKS_MAX - 1);
    if (ctx->njob < 2)
        return 0;
    g.makes_steps = PB_NEW_N(&ctx->arena, bool, ctx->njob);
    if (ask(&g) < 0) {
        ctx->err = (struct pb_err){0};
        ctx->note = NULL;
    }
    match(&g);
    if (!ctx->cluster)
        leave_out_others(&g);
    if (g.found)
        choose(&g);
    if (!ctx->agreed)
        pb_ctx_notice(ctx, g.found ? "probing: the steps of these processes cannot be matched "
                                     "(no collectives of all ranks, and their numbers of steps "
                                     "are their own): each begins with its next one"
                                   : "probing: no training steps of these processes are known: "
                                     "each begins with its next one");
    return 0;
}

const char *pb_profile_who(struct pb_ctx *ctx)
{
    char *text;

    if (ctx->chosen && ctx->chosen->host && ctx->chosen->rank >= 0)
        return pb_arena_printf(&ctx->arena, "rank%ld", ctx->chosen->rank);
    text = pb_arena_strdup(&ctx->arena, pb_link_who(ctx));
    for (char *at = text; *at; at++)
        *at = strchr("/:[]", *at) ? '-' : *at;
    return text;
}

const char *pb_profile_name(struct pb_ctx *ctx, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strchr(*name == '.' ? name + 1 : name, '.');
    size_t stem = dot ? (size_t)(dot - path) : strlen(path);

    if (ctx->njob < 2)
        return path;
    return pb_arena_printf(&ctx->arena, "%.*s.%s%s", (int)stem, path, pb_profile_who(ctx),
                           dot ? dot : "");
}

void pb_profile_show_first(struct pb_ctx *ctx, const struct pb_json *head)
{
    long long first = (long long)pb_json_whole(head, "first", -1);
    long long late = (long long)pb_json_whole(head, "late", 0);

    if (ctx->agreed && first >= 0)
        pb_print_f(&ctx->out, "from step %lld on, by its own count%s\n", first,
                   late ? "" : ": the same one on all ranks");
    if (ctx->agreed && late)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s was told too late: it began "
                                                        "%lld step%s behind the others",
                                           pb_profile_who(ctx), late, late == 1 ? "" : "s"));
}
