/*
 * probing TARGET flamegraph - where the time goes, sampled from outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/destination.h"
#include "cli/flame/flame.h"
#include "cli/flame/hot.h"
#include "cluster/ranges.h"
#include "host/text/number.h"
#include "recording/formats.h"

enum { HOT_LINES = 10, NAMES_TRIED = 1000 };
#define OWN_NAME "flamegraph" /* what names of our own begin with */

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "duration", .letter = 'd', .type = PB_OPT_NUM, .arg = "SECS", .min = 0.05,
     .max = 604800,
     .help = "how long (default 10); Ctrl-C ends it earlier and keeps what there is"},
    {.name = "rate", .letter = 'r', .type = PB_OPT_INT, .arg = "HZ", .min = 1, .max = 1000,
     .help = "samples a second of each thread (default 100)"},
    {.name = "output", .letter = 'o', .type = PB_OPT_STR, .arg = "FILE",
     .help = "where it goes, - for stdout; its ending chooses the format (default: a new file "
             "flamegraph-PID-HHMMSS.html)"},
    {.name = "format", .letter = 'f', .type = PB_OPT_CHOICE, .arg = "FORMAT",
     .choices = PB_FORMAT_CHOICES,
     .help = "html (default), svg, speedscope, pprof, collapsed, chrome (Perfetto reads it, too), "
             "gecko (Firefox)"},
    {.name = "thread", .letter = 't', .type = PB_OPT_STR, .arg = "REGEX",
     .help = "only threads whose name or number matches"},
    {.name = "gil", .help = "only time in which a thread held the GIL"},
    {.name = "cpu", .help = "only time in which a thread was running"},
    {.name = "idle", .letter = 'i',
     .help = "also threads at rest: sleeping, waiting for connections, never run meanwhile"},
    {.name = "function", .letter = 'F', .help = "by function, not by line"},
    {.name = "native", .letter = 'n',
     .help = "C and C++ frames as well, and threads without Python"},
    {.name = "subprocesses", .letter = 's',
     .help = "children too, those that begin later included"},
    {.name = "last", .type = PB_OPT_STR, .arg = "TIME",
     .help = "out of history: the last 90s, 10min, 2h, 3d of its samples, also of a dead process"},
    {.name = "from", .type = PB_OPT_STR, .arg = "TIME",
     .help = "out of history: from '2025-08-01 12:00', 14:05, or 20min (ago) on"},
    {.name = "to", .type = PB_OPT_STR, .arg = "TIME", .help = "out of history: up to then"},
    {.name = "diff",
     .help = "compare A with B, each a window (20m..10m), a process, rank:N, median or a file"},
    {.name = "no-pause", .help = "never hold a thread; what could not be read exactly counts as "
                                 "torn"},
    {.name = NULL},
};

static const struct pb_positional positionals[] = {
    {.name = "A", .help = "with --diff: what was before"},
    {.name = "B", .help = "with --diff: what is shown, coloured by how it differs from A"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_flamegraph = {
    .name = "flamegraph",
    .aliases = "fg, record",
    .summary = "Record where the target's time goes, as a flame graph",
    .details =
        "Samples the stacks of all threads from outside: nothing is loaded into the process, the\n"
        "GIL is not needed, and a process that hangs shows where. A blocked thread is never\n"
        "stopped; a running one only when its stack changes at every look. A sample counts the\n"
        "time since the last one of its thread, so that a busy machine shifts no shares. Time in\n"
        "which a thread waits counts as well (--cpu, --gil leave it out). Threads beside the main\n"
        "one that merely rest do not, unless nothing else is there (--idle shows them).\n"
        "\n"
        "While a node runs, probed processes are sampled all the time: --last, --from and --to\n"
        "take what is shown from there. Several processes (12,34), a job (job:train.py) and\n"
        "children (-s) become one profile, each process a frame at the root. Of a cluster the\n"
        "samples that its nodes take anyway are shown: the last SECS, or as --last says.\n"
        "\n"
        "--diff A B shows B and colours what took longer (red) or shorter (blue) than in A.",
    .options = options,
    .positionals = positionals,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .whole_cluster = true,
    .one_apart = true,
    .examples = "probing 4242 flamegraph                   # ten seconds, into a page\n"
                "probing 4242 fg -d 60 -o step.svg         # a picture\n"
                "probing 4242 fg -n --cpu -o step.pb       # with C frames, for go tool pprof\n"
                "probing 4242 record -s -f speedscope      # children too\n"
                "probing 4242 fg --last 10min              # out of history, living or dead\n"
                "probing job:train.py fg -d 30             # all ranks in one\n"
                "probing 4242 fg --diff 70m..60m 10m       # now and an hour ago\n"
                "probing job:train.py fg --diff median rank:3\n"
                "probing cluster fg --last 1min            # all ranks of all machines\n"
                "probing cluster fg --diff median rank:3   # one against the others, anywhere\n",
    .run = run,
};

struct job {
    struct pb_ctx *ctx;
    const struct pb_format *format;
    const char *path; /* NULL: a name of our own */
    struct pb_flame flame;
    struct pb_rec_filter filter;
    regex_t threads;
    bool has_threads;
};

static int choose_format(struct job *j)
{
    struct pb_ctx *ctx = j->ctx;
    const char *name = pb_opt_str(ctx, "format", NULL);

    j->path = pb_opt_str(ctx, "output", NULL);
    if (name)
        j->format = pb_format_find(name);
    else if (j->path && strcmp(j->path, "-") != 0)
        j->format = pb_format_by_path(j->path);
    else
        j->format = j->path ? pb_format_find("collapsed") : &pb_formats[0];
    if (!j->format)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "%s: its ending names no format; say which with -f %s", j->path,
                          PB_FORMAT_CHOICES);
    return 0;
}

static int read_options(struct job *j)
{
    struct pb_ctx *ctx = j->ctx;
    const char *threads = pb_opt_str(ctx, "thread", NULL);
    char why[128];
    int rc;

    j->flame = (struct pb_flame){.ctx = ctx,
                                 .secs = pb_opt_num(ctx, "duration", 10),
                                 .from = pb_opt_str(ctx, "from", NULL),
                                 .to = pb_opt_str(ctx, "to", NULL),
                                 .last = pb_opt_str(ctx, "last", NULL)};
    j->flame.sampler = (struct pb_sampler_opts){
        .rate = (double)pb_opt_int(ctx, "rate", 100), .native = pb_opt_flag(ctx, "native"),
        .children = pb_opt_flag(ctx, "subprocesses"),
        .by_process = pb_opt_flag(ctx, "subprocesses"), .by_function = pb_opt_flag(ctx, "function"),
        .no_pause = pb_opt_flag(ctx, "no-pause")};
    j->filter = (struct pb_rec_filter){.gil = pb_opt_flag(ctx, "gil"),
                                       .cpu = pb_opt_flag(ctx, "cpu"),
                                       .idle = pb_opt_flag(ctx, "idle")};
    if (j->filter.idle && (j->filter.gil || j->filter.cpu))
        return pb_err_set(&ctx->err, PB_USAGE, "--idle excludes --gil and --cpu");
    if (pb_nodelink_cluster(ctx)) {
        if (!ctx->ranks && !ctx->of_job)
            ctx->ranks = PB_RANGES_ALL;
        if (!pb_flame_wants_history(&j->flame))
            j->flame.last = pb_arena_printf(&ctx->arena, "%gs", j->flame.secs);
    }
    if (threads) {
        rc = regcomp(&j->threads, threads, REG_EXTENDED | REG_NOSUB);
        if (rc) {
            regerror(rc, &j->threads, why, sizeof why);
            return pb_err_set(&ctx->err, PB_USAGE, "--thread: '%s': %s", threads, why);
        }
        j->has_threads = true;
        j->filter.threads = &j->threads;
    }
    return choose_format(j);
}

static const char *number(struct pb_arena *a, uint64_t v)
{
    char digits[32], out[48];
    size_t n = 0, at = 0;

    do
        digits[n++] = (char)('0' + v % 10);
    while ((v /= 10));
    while (n) {
        out[at++] = digits[--n];
        if (n && n % 3 == 0)
            out[at++] = ',';
    }
    return pb_arena_strndup(a, out, at);
}

/* What was achieved, missed and spent. */
static void put_summary(struct pb_print *out, const struct pb_recording *r)
{
    struct pb_arena a = PB_ARENA_INIT;
    int64_t end_ns = r->started_ns + (int64_t)r->length_ns;

    if (r->rate > 0)
        pb_print_f(out, "recorded %d at %g Hz, ", (int)r->pid, r->rate);
    else if (r->started_ns)
        pb_print_f(out, "%s to %s, ", pb_format_clock(&a, r->started_ns),
                   pb_format_clock(&a, end_ns) + (end_ns / 86400000000000 ==
                                             r->started_ns / 86400000000000 ? 11 : 0));
    if (r->processes > 1)
        pb_print_f(out, "%zu processes, ", r->processes);
    pb_print_f(out, "%zu thread%s: %.1f s, %s samples", r->nthreads, pb_plural(r->nthreads, "s"),
               (double)r->length_ns / 1e9, number(&a, r->samples));
    if (r->rate > 0)
        pb_print_f(out, ", %s missed", number(&a, r->missed));
    if (r->torn)
        pb_print_f(out, ", %s torn", number(&a, r->torn));
    if (r->partial)
        pb_print_f(out, ", %s partial", number(&a, r->partial));
    if (r->rate > 0)
        pb_print_f(out, "; cost %.1f %% of a core",
                   100.0 * (double)r->cpu_ns / (double)r->length_ns);
    if (r->stops)
        pb_print_f(out, ", stops: %s of %.0f us", number(&a, r->stops),
                   r->pause_us / (double)r->stops);
    pb_print_puts(out, "\n");
    if (r->left_out)
        pb_print_f(out, "%s look%s left out, so that no thread is held for more than %d %% of the "
                        "time\n", number(&a, r->left_out), pb_plural(r->left_out, "s"),
                   PB_SAMPLER_HELD_PERCENT);
    if (r->before_title)
        pb_print_f(out, "compared with %s\n", pb_text_clean(&a, r->before_title));
    if (r->full)
        pb_print_puts(out, "ended early: no room for more; a lower rate (-r) reaches further\n");
    if (r->has_idle)
        pb_print_puts(out, "every thread was at rest; shown all the same\n");
    pb_arena_finish(&a);
}

/* A file that nobody else had, in the folder where the user is. */
static int create_file(struct job *j, pid_t pid, const char **ret)
{
    const char *suffix = j->format->endings;
    int len = (int)strcspn(suffix, " "), fd;
    struct pb_ctx *ctx = j->ctx;
    time_t now = time(NULL);
    struct tm tm;

    localtime_r(&now, &tm);
    for (int i = 1; i < NAMES_TRIED; i++) {
        const char *of = pid ? pb_arena_printf(&ctx->arena, "-%d", (int)pid) : "";
        const char *stem = pb_arena_printf(&ctx->arena, OWN_NAME "%s-%02d%02d%02d", of, tm.tm_hour,
                                           tm.tm_min, tm.tm_sec);

        *ret = i == 1 ? pb_arena_printf(&ctx->arena, "%s%.*s", stem, len, suffix)
                      : pb_arena_printf(&ctx->arena, "%s.%d%.*s", stem, i, len, suffix);
        fd = open(*ret, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    if (fd < 0)
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s; choose another place with -o", *ret,
                          strerror(errno));
    return fd;
}

static int write_own(struct job *j, pid_t pid, const struct pb_buf *text, const char **ret)
{
    int fd = create_file(j, pid, ret), rc = 0;

    for (size_t at = 0; fd >= 0 && at < text->len && rc == 0;) {
        ssize_t n = write(fd, text->data + at, text->len - at);

        if (n < 0 && errno != EINTR)
            rc = pb_err_set(&j->ctx->err, PB_FAIL, "%s: %s", *ret, strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = pb_err_set(&j->ctx->err, PB_FAIL, "%s: %s", *ret, strerror(errno));
    if (rc < 0)
        unlink(*ret);
    return fd < 0 ? -1 : rc;
}

static int write_named(struct job *j, const struct pb_buf *text)
{
    struct pb_destination o;
    int rc;

    if (pb_destination_open(j->ctx, &o, j->path, false) < 0)
        return -1;
    pb_buf_add(&j->ctx->out.buf, text->data, text->len);
    rc = pb_destination_flush(&o);
    return pb_destination_close(&o, rc == 0) < 0 ? -1 : rc;
}

static int save(struct job *j, struct pb_recording *r)
{
    struct pb_buf text = PB_BUF_INIT;
    struct pb_print *out = &j->ctx->out;
    const char *path = j->path;
    int rc;

    pb_recording_filter(r, &j->filter);
    if (!r->nentries)
        return pb_err_set(&j->ctx->err, PB_FAIL, "none of %llu samples is what was asked for (%s)",
                          (unsigned long long)r->samples,
                          j->filter.threads ? "--thread" : j->filter.gil ? "--gil" : "--cpu");
    if (r->before_title && !j->format->compares)
        return pb_err_set(&j->ctx->err, PB_USAGE, "-f %s cannot show a difference; html, svg and "
                                                  "collapsed can", j->format->name);
    if (strcmp(j->format->name, "html") == 0 && !j->ctx->remote && !j->ctx->store &&
        !j->ctx->cluster)
        pb_flame_read_source(r);
    j->format->write(r, &text);
    rc = path ? write_named(j, &text) : write_own(j, r->pid, &text, &path);
    pb_buf_finish(&text);
    if (rc < 0 || strcmp(path, "-") == 0)
        return rc;
    put_summary(out, r);
    if (!j->path)
        pb_hot_print(out, r, HOT_LINES);
    pb_print_text(out, PB_BOLD, path);
    if (!j->path && strcmp(j->format->name, "html") == 0)
        pb_print_puts(out, "   (open it in a browser; -f speedscope, pprof, svg … for others)");
    else
        pb_print_f(out, "   (%s)", j->format->what);
    pb_print_puts(out, "\n");
    return 0;
}

static int make(struct job *j, struct pb_recording *ret)
{
    struct pb_ctx *ctx = j->ctx;
    bool cluster = pb_nodelink_cluster(ctx) != NULL;
    pid_t *pids;
    size_t n;

    if (pb_opt_flag(ctx, "diff")) {
        if (ctx->nargs != 2)
            return pb_err_set(&ctx->err, PB_USAGE, "--diff compares two: --diff A B");
        return pb_flame_diff(&j->flame, ctx->args[0], ctx->args[1], ret);
    }
    if (ctx->nargs)
        return pb_err_set(&ctx->err, PB_USAGE, "'%s': what for? Two of them go with --diff",
                          ctx->args[0]);
    if (pb_flame_wants_history(&j->flame) || cluster)
        return pb_flame_history(&j->flame, NULL, "", cluster, ret);
    if (pb_flame_pids(&j->flame, &pids, &n) < 0)
        return -1;
    return pb_flame_record(&j->flame, pids, n, ret);
}

static int run(struct pb_ctx *ctx)
{
    struct job j = {.ctx = ctx};
    struct pb_recording r;
    int rc = read_options(&j);

    if (rc == 0)
        rc = pb_destination_check(ctx, j.path ? j.path : OWN_NAME);
    if (rc < 0 && !j.path && ctx->err.code == PB_FAIL)
        pb_err_prefix(&ctx->err, "no file can be made here (another place: -o)");
    if (rc == 0)
        rc = make(&j, &r);
    if (rc == 0) {
        rc = save(&j, &r);
        pb_recording_finish(&r);
    }
    pb_flame_finish(&j.flame);
    if (j.has_threads)
        regfree(&j.threads);
    return rc;
}
