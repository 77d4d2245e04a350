/*
 * probing TARGET memory - how much memory a process has, how much it had, and where it is going.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/home.h"
#include "cli/memory/memory.h"
#include "cli/memory/memory_core.h"
#include "cli/memory/memory_heap.h"
#include "cli/memory/memory_sites.h"
#include "cli/memory/memory_torch.h"
#include "cli/client/nodelink.h"
#include "host/process/proc.h"
#include "host/python/processes.h"
#include "host/text/secret.h"

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = "text|json", .help = "text (default) or json"},
    {.name = "json", .help = "the same as -f json"},
    {.name = "heap", .help = "Python objects by type, the largest containers and who holds them"},
    {.name = "sites", .help = "which lines allocate the memory that is in use, by a sample of the "
                              "allocations"},
    {.name = "native", .letter = 'n',
     .help = "with --sites: also what C and C++ code gets from malloc, such as arrays and tensors"},
    {.name = "torch", .help = "blocks of CUDA's allocator that are in use, by line and by module"},
    {.name = "type", .letter = 't', .type = PB_OPT_STR, .arg = "TYPE",
     .help = "with --heap: which variables hold objects of this type"},
    {.name = "watch", .letter = 'w', .type = PB_OPT_NUM, .arg = "SECS", .min = 0.1, .max = 86400,
     .help = "with --heap: look again every SECS seconds and show growth"},
    {.name = "count", .type = PB_OPT_INT, .arg = "N", .min = 1, .max = 1000000,
     .help = "with --watch: end after N looks"},
    {.name = "limit", .type = PB_OPT_INT, .arg = "N", .min = 1, .max = 100000,
     .help = "with --heap, --sites, --torch: lines that are shown (20)"},
    {.name = "duration", .letter = 'd', .type = PB_OPT_NUM, .arg = "SECS", .min = 0, .max = 86400,
     .help = "with --sites: sample so long first (10 if sampling was off, else 0); with --torch: "
             "record the lines that allocate for so long (0)"},
    {.name = "output", .letter = 'o', .type = PB_OPT_STR, .arg = "FILE",
     .help = "with --sites: a flame graph by bytes; its ending says which: .html, .svg, .pb, "
             ".speedscope.json, .folded; with --torch: the snapshot for torch's memory_viz"},
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
        "only where it is steady. An ended process is shown as last seen.\n"
        "\n"
        "--heap reads the Python objects themselves, from outside: no probe, no GIL, no stop,\n"
        "also of a process that hangs, or, with --core FILE in front, of one that has died and\n"
        "left a core file. Sizes are those of sys.getsizeof(). Holders are variables of modules\n"
        "and of running functions.\n"
        "\n"
        "--sites loads the probes if need be and turns memory.sites on: from then on one block in\n"
        "512 KB of allocations is followed until it is freed (Poisson sampling), which costs a\n"
        "loop that only allocates about 3 %. Numbers are estimates, ± is their standard error.\n"
        "Older blocks are not known: --heap sees those. With -n blocks that C and C++ code gets\n"
        "from malloc count as well, by the Python line that called it. Sampling stays on until\n"
        "config memory.sites=off (memory.malloc=off for -n alone).\n"
        "\n"
        "--torch takes a snapshot of CUDA's allocator in the process: whose memory it is\n"
        "(parameters, gradients, optimizer states, by module) and, for what was allocated while\n"
        "torch records (-d, or the program itself), which line of the program asked for it.",
    .options = options,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_EACH,
    .core = true,
    .examples = "probing 4242 memory         # one screen\n"
                "probing 4242 memory --json  # the same for scripts\n"
                "probing 4242 memory --heap  # Python objects by type\n"
                "probing 4242 memory --heap -w 10        # what grows\n"
                "probing 4242 memory --heap -t app.Node  # who holds it\n"
                "probing --core core.4242 memory --heap  # of a core file\n"
                "probing 4242 memory --sites             # who allocates it\n"
                "probing 4242 memory --sites -n          # arrays and tensors, too\n"
                "probing 4242 memory --sites -o mem.html # the same as a flame graph\n"
                "probing 4242 memory --torch -d 30 -o snapshot.pickle # CUDA, for torch's viewer\n",
    .run = run,
};

PB_EMBED(question, "src/cli/scripts/memory.sql")

/* Columns of the answer. */
enum { AT_PID, AT_KIND, AT_NOW, AT_PEAK, AT_TREND, AT_ERROR, AT_FIRST, AT_LAST, AT_SLOTS,
       AT_POINTS, AT_COMMAND, NCELLS };

static double number(const struct pb_json *cell)
{
    return cell->type == PB_J_REAL  ? cell->v.d
           : cell->type == PB_J_INT ? (double)cell->v.i
                                    : (double)NAN;
}

static void read_kind(struct pb_memory_kind *k, const struct pb_json *cells, struct pb_ctx *ctx)
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
        read_kind(&p->kinds[p->nkinds++], rows[i]->items, ctx);
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
static pid_t find_living(const struct pb_ctx *ctx)
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
    pid_t pid = find_living(ctx);
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

/* An option that says how, without the one that says what, would say nothing. */
static int check_options(struct pb_ctx *ctx)
{
    static const struct {
        const char *option, *of; /* "heap sites": it goes with one of these */
    } pairs[] = {{"type", "heap"}, {"watch", "heap"}, {"count", "watch"}, {"native", "sites"},
                 {"limit", "heap sites torch"}, {"duration", "sites torch"},
                 {"output", "sites torch"}};
    const struct pb_opt *all = ctx->cmd->options;

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bool given = false, fits = false;

        for (size_t k = 0; all[k].name; k++) {
            given |= ctx->values[k].set && strcmp(all[k].name, pairs[i].option) == 0;
            fits |= ctx->values[k].set && strstr(pairs[i].of, all[k].name);
        }
        if (given && !fits)
            return pb_err_set(&ctx->err, PB_USAGE, "--%s goes with --%.*s", pairs[i].option,
                              (int)strcspn(pairs[i].of, " "), pairs[i].of);
    }
    return 0;
}

static int heap(struct pb_ctx *ctx)
{
    pid_t pid = find_living(ctx);

    return pb_memory_heap(ctx, pid,
                          pid ? pb_secret_text(short_command(ctx, pid), &ctx->arena) : NULL);
}

static int sites(struct pb_ctx *ctx)
{
    pid_t pid = find_living(ctx);

    if (pid && !pb_home_start_time(pid)) /* it has ended: its rows are left */
        pid = 0;
    return pb_memory_sites(ctx, pid,
                           pid ? pb_secret_text(short_command(ctx, pid), &ctx->arena) : NULL);
}

static int run(struct pb_ctx *ctx)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    struct pb_memories *m = PB_NEW(&ctx->arena, struct pb_memories);
    int rc;

    if (check_options(ctx) < 0)
        return -1;
    if (ctx->core && !pb_opt_flag(ctx, "heap"))
        return pb_err_set(&ctx->err, PB_USAGE, "--core: only memory --heap looks at a core file");
    if (ctx->core)
        return pb_memory_core(ctx);
    if (!ctx->scope && !ctx->remote && !ctx->store)
        return pb_err_set(&ctx->err, PB_USAGE, "memory needs a target: probing <TARGET> memory");
    if (pb_opt_flag(ctx, "heap"))
        return heap(ctx);
    if (pb_opt_flag(ctx, "sites"))
        return sites(ctx);
    if (pb_opt_flag(ctx, "torch"))
        return pb_memory_torch(ctx);
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
