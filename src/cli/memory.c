/*
 * probing TARGET memory - how much memory a process has, how much it had, and where it is going.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/home.h"
#include "cli/memory.h"
#include "cli/nodelink.h"
#include "host/proc.h"
#include "host/secret.h"
#include "unwind/processes.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "text|json", .help = "text (default) or json"},
    {.name = "json", .help = "the same as -f json"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_memory = {
    .name = "memory",
    .aliases = "mem",
    .summary = "Show the memory of the target: now, peak, trend, by kind",
    .details =
        "Resident memory is known of every Python process that the node has looked at, probed or\n"
        "not; the kinds inside come from the probes (python.memory): what Python's own allocator\n"
        "holds for small objects, and what malloc has given out, where tensors in main memory,\n"
        "arrays and large objects are. The line of bars covers the last ten minutes, or as much\n"
        "of them as there is. The trend, with its standard error, is that of the later half, and\n"
        "only where it is steady. An ended process is shown as last seen.",
    .options = options,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_EACH,
    .examples = "probing 4242 memory         # one screen\n"
                "probing 4242 memory --json  # the same for scripts\n",
    .run = run,
};

/* Points are the highest value of each twentieth of the window. */
static const char question[] =
    "WITH told AS ("
    " SELECT 1 AS place, 'resident' AS kind, epoch(timestamp) AS t, rss_mb AS mb, pid"
    " FROM system.cpu"
    " UNION ALL SELECT 1, 'resident', epoch(timestamp), rss_mb, pid FROM python.memory"
    " UNION ALL SELECT 2, 'python objects', epoch(timestamp), python_mb, pid FROM python.memory"
    " UNION ALL SELECT 3, 'arrays and tensors', epoch(timestamp), heap_mb, pid FROM python.memory"
    " UNION ALL SELECT 4, 'cuda allocated', epoch(timestamp), cuda_allocated_mb, pid"
    " FROM python.memory"
    " UNION ALL SELECT 5, 'cuda reserved', epoch(timestamp), cuda_reserved_mb, pid"
    " FROM python.memory"
    " UNION ALL SELECT 6 + device, 'gpu ' || device, epoch(timestamp), memory_used_mb, pid"
    " FROM gpu.process"
    "), known AS (SELECT * FROM told WHERE mb IS NOT NULL),"
    " edge AS (SELECT pid, max(t) AS last, greatest(min(t), max(t) - 600) AS first"
    " FROM known GROUP BY pid),"
    " whole AS (SELECT pid, place, kind, max(mb) AS peak, arg_max(mb, t) AS now"
    " FROM known GROUP BY ALL),"
    " recent AS (SELECT known.*, first, last FROM known JOIN edge USING (pid) WHERE t >= first),"
    /*
     * A trend is told from the later half alone: what a program makes when it starts is none.
     * Memory goes up and down within a step: four times what that would make of a flat line. And it
     * is the same in both parts of that half, or it has just begun or just ended.
     */
    " line AS (SELECT pid, place, regr_slope(mb, t) * 60 AS slope,"
    " regr_slope(mb, t) FILTER (t < last - (last - first) / 4) * 60 AS before,"
    " regr_slope(mb, t) FILTER (t >= last - (last - first) / 4) * 60 AS after,"
    " 60 * sqrt(greatest(0, 1 - regr_r2(mb, t)) / greatest(count(*) - 2, 1))"
    " * stddev_samp(mb) / stddev_samp(t) AS error, count(*) AS n"
    " FROM recent WHERE t >= (first + last) / 2 GROUP BY pid, place),"
    " trend AS (SELECT pid, place, slope AS mb_per_min, error FROM line"
    " WHERE n > 5 AND abs(slope) >= 4 * error"
    " AND before / slope BETWEEN 0.4 AND 2.5 AND after / slope BETWEEN 0.4 AND 2.5),"
    " bucket AS (SELECT pid, place,"
    " least(19, floor((t - first) * 20 / greatest(last - first, 0.001)))::BIGINT AS b,"
    " max(mb) AS mb FROM recent GROUP BY ALL),"
    " spark AS (SELECT pid, place, list(b ORDER BY b) AS slots, list(mb ORDER BY b) AS points"
    " FROM bucket GROUP BY ALL) "
    "SELECT whole.pid, kind, now, peak, mb_per_min, error, first, last, slots, points, command "
    "FROM whole JOIN edge USING (pid) LEFT JOIN trend USING (pid, place) "
    "LEFT JOIN spark USING (pid, place) "
    /* Another process may have the number of one that has ended. */
    "LEFT JOIN (SELECT pid, epoch(start_time) AS start, command FROM system.process"
    " WHERE state <> 'ended') AS alive ON alive.pid = whole.pid AND start <= first + 1 "
    "ORDER BY whole.pid, place";

enum { AT_PID, AT_KIND, AT_NOW, AT_PEAK, AT_TREND, AT_ERROR, AT_FIRST, AT_LAST, AT_SLOTS,
       AT_POINTS, AT_COMMAND, NCELLS };

static double number(const struct pb_json *cell)
{
    return cell->type == PB_J_REAL  ? cell->v.d
           : cell->type == PB_J_INT ? (double)cell->v.i
                                    : (double)NAN;
}

static void take_kind(struct pb_memory_kind *k, const struct pb_json *cells, struct pb_ctx *ctx)
{
    const struct pb_json *slots = &cells[AT_SLOTS], *points = &cells[AT_POINTS];

    k->name = cells[AT_KIND].type == PB_J_STRING
                  ? pb_arena_strdup(&ctx->arena, cells[AT_KIND].s)
                  : "";
    k->now = number(&cells[AT_NOW]);
    k->peak = number(&cells[AT_PEAK]);
    k->trend = number(&cells[AT_TREND]);
    k->error = number(&cells[AT_ERROR]);
    for (size_t i = 0; i < PB_MEMORY_POINTS; i++)
        k->points[i] = NAN;
    if (slots->type != PB_J_ARRAY || points->type != PB_J_ARRAY)
        return;
    for (size_t i = 0; i < slots->n && i < points->n; i++) {
        double at = number(&slots->items[i]);

        if (at >= 0 && at < PB_MEMORY_POINTS)
            k->points[(size_t)at] = number(&points->items[i]);
    }
}

/* The process that a row is about: the one before it, or a new one. */
static struct pb_memory *process_of(struct pb_memories *m, pid_t pid)
{
    struct pb_memory *last = m->n ? &m->v[m->n - 1] : NULL;

    if (last && last->pid == pid)
        return last;
    if (m->n == PB_MEMORY_PROCESSES)
        return NULL;
    last = &m->v[m->n++];
    *last = (struct pb_memory){.pid = pid};
    return last;
}

static int ask(struct pb_ctx *ctx, struct pb_memories *m)
{
    const struct pb_json **rows;
    struct pb_nodelink link = {0};
    size_t n = 0;
    int rc;

    if (pb_nodelink_open(ctx, &link) < 0)
        return -1;
    rc = pb_nodelink_rows(ctx, &link, question, &rows, &n);
    pb_nodelink_close(&link);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct pb_memory *p;

        if (rows[i]->n < NCELLS || rows[i]->items[AT_PID].type != PB_J_INT)
            continue;
        p = process_of(m, (pid_t)rows[i]->items[AT_PID].v.i);
        if (!p || p->nkinds == PB_MEMORY_KINDS)
            continue;
        p->first = number(&rows[i]->items[AT_FIRST]);
        p->last = number(&rows[i]->items[AT_LAST]);
        if (ctx->remote && rows[i]->items[AT_COMMAND].type == PB_J_STRING) {
            p->alive = true;
            p->command = pb_arena_strdup(&ctx->arena, rows[i]->items[AT_COMMAND].s);
        }
        take_kind(&p->kinds[p->nkinds++], rows[i]->items, ctx);
    }
    return rc;
}

/* "VmRSS:   1234 kB" in MB; NaN when the line is not there. */
static double status_mb(const char *status, const char *key)
{
    const char *at = strstr(status, key);

    return at ? strtod(at + strlen(key), NULL) / 1024 : (double)NAN;
}

static const char *short_command(struct pb_ctx *ctx, pid_t pid)
{
    struct pb_process p = {.pid = pid, .command = pb_proc_command(pid, &ctx->arena)};

    p.argv = pb_proc_read(pid, "cmdline", &ctx->arena, &p.argv_len);
    return p.argv && p.argv_len ? pb_process_short_command(&p) : p.command;
}

/* The process on this machine that the user meant, if it lives: 0 for none. */
static pid_t living(const struct pb_ctx *ctx)
{
    const char *dash = ctx->scope ? strchr(ctx->scope, '-') : NULL;
    pid_t pid;

    if (ctx->remote || ctx->store || !ctx->scope)
        return 0;
    pid = (pid_t)strtol(ctx->scope, NULL, 10);
    if (dash && pb_home_start_time(pid) != strtoull(dash + 1, NULL, 10))
        return 0;
    return pid;
}

/* What the kernel says now stands over what was last sampled. */
static bool add_living(struct pb_ctx *ctx, struct pb_memories *m)
{
    pid_t pid = living(ctx);
    size_t len = 0;
    char *status = pid ? pb_proc_read(pid, "status", &ctx->arena, &len) : NULL;
    double now = status ? status_mb(status, "\nVmRSS:") : (double)NAN;
    double peak = status ? status_mb(status, "\nVmHWM:") : (double)NAN;
    struct pb_memory *p;
    struct pb_memory_kind *k;

    /* Without these lines it is a kernel thread, or has ended and is not waited for. */
    if (isnan(now))
        return false;
    p = process_of(m, pid);
    if (!p)
        return false;
    p->alive = true;
    p->command = pb_secret_text(short_command(ctx, pid), &ctx->arena);
    k = &p->kinds[0];
    if (!p->nkinds) {
        p->nkinds = 1;
        *k = (struct pb_memory_kind){.name = "resident", .peak = now, .trend = NAN,
                                       .error = NAN};
        for (size_t i = 0; i < PB_MEMORY_POINTS; i++)
            k->points[i] = NAN;
    }
    if (strcmp(k->name, "resident") == 0) {
        k->now = now;
        k->peak = now > k->peak ? now : k->peak;
        k->peak = peak > k->peak ? peak : k->peak;
    }
    return true;
}

static int run(struct pb_ctx *ctx)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    struct pb_memories *m = PB_NEW(&ctx->arena, struct pb_memories);
    int rc;

    if (!ctx->scope && !ctx->remote && !ctx->store)
        return pb_err_set(&ctx->err, PB_USAGE, "memory needs a target: probing <TARGET> memory");
    rc = ask(ctx, m);
    if (ctx->interrupted)
        return -1;
    if (add_living(ctx, m) && rc < 0) {
        /* Without a node there is still the present. */
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: no history: %s", ctx->err.msg));
        ctx->err = (struct pb_err){0};
        ctx->note = NULL;
        rc = 0;
    }
    if (rc < 0)
        return -1;
    if (!m->n)
        return pb_err_set(&ctx->err, PB_NO_TARGET, "%s: no such process, and no rows of one",
                          ctx->target ? ctx->target : "memory");
    if (json)
        pb_memory_json(&ctx->out.buf, m);
    else
        pb_memory_text(&ctx->out, m, &ctx->arena);
    return 0;
}
