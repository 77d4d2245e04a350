/*
 * probing TARGET flamegraph - where the time goes, sampled from outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/hot.h"
#include "cli/outlet.h"
#include "profile/formats.h"
#include "profile/sampler.h"

enum { HOT_LINES = 10, NAMES_TRIED = 1000, PROGRESS_NS = 500000000 };

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
    {.name = "no-pause", .help = "never hold a thread; what could not be read exactly counts as "
                                 "torn"},
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
        "one that merely rest do not, unless nothing else is there (--idle shows them).",
    .options = options,
    .target = PB_TARGET_PROCESS,
    .examples = "probing 4242 flamegraph                   # ten seconds, into a page\n"
                "probing 4242 fg -d 60 -o step.svg         # a picture\n"
                "probing 4242 fg -n --cpu -o step.pb       # with C frames, for go tool pprof\n"
                "probing 4242 record -s -f speedscope      # children too\n",
    .run = run,
};

/* All that a signal handler can get at. */
static _Atomic bool ended;

static void on_interrupt(int signo)
{
    (void)signo;
    atomic_store(&ended, true);
}

struct job {
    struct pb_ctx *ctx;
    const struct pb_format *format;
    const char *path; /* NULL: a name of our own */
    struct pb_sampler_opts sampler;
    struct pb_rec_filter filter;
    regex_t threads;
    bool has_threads;
    double secs;
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
        j->format = pb_format_find(j->path ? "collapsed" : "html");
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

    j->secs = pb_opt_num(ctx, "duration", 10);
    j->sampler = (struct pb_sampler_opts){
        .rate = (double)pb_opt_int(ctx, "rate", 100), .native = pb_opt_flag(ctx, "native"),
        .children = pb_opt_flag(ctx, "subprocesses"), .by_function = pb_opt_flag(ctx, "function"),
        .no_pause = pb_opt_flag(ctx, "no-pause")};
    j->filter = (struct pb_rec_filter){.gil = pb_opt_flag(ctx, "gil"),
                                       .cpu = pb_opt_flag(ctx, "cpu"),
                                       .idle = pb_opt_flag(ctx, "idle")};
    if (j->filter.idle && (j->filter.gil || j->filter.cpu))
        return pb_err_set(&ctx->err, PB_USAGE, "--idle excludes --gil and --cpu");
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

static void progress(const struct job *j, const struct pb_recording *r, bool last)
{
    struct pb_print e;

    if (!isatty(STDERR_FILENO))
        return;
    pb_print_init(&e, STDERR_FILENO);
    if (last)
        pb_print_puts(&e, "\r\x1b[K");
    else
        pb_print_f(&e, "\rrecording %d at %g Hz, %.0f of %g s, %llu samples (Ctrl-C ends it) ",
                   (int)r->pid, r->rate, (double)r->length_ns / 1e9, j->secs,
                   (unsigned long long)r->samples);
    pb_print_flush(&e, NULL);
    pb_print_finish(&e);
}

static void record(const struct job *j, struct pb_sampler *s)
{
    uint64_t start = pb_clock_ns(), end = start + (uint64_t)(j->secs * 1e9), shown = start;

    while (!atomic_load(&ended) && pb_sampler_tick(s)) {
        uint64_t now = pb_clock_ns();

        if (now >= end || pb_sampler_recording(s)->full)
            break;
        if (now - shown >= PROGRESS_NS) {
            progress(j, pb_sampler_recording(s), false);
            shown = now;
        }
        pb_sampler_sleep(s);
    }
    progress(j, pb_sampler_recording(s), true);
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
static void put_summary(struct pb_print *out, const struct pb_recording *r, size_t processes)
{
    struct pb_arena a = PB_ARENA_INIT;
    double secs = (double)r->length_ns / 1e9;

    pb_print_f(out, "recorded %d at %g Hz, ", (int)r->pid, r->rate);
    if (processes > 1)
        pb_print_f(out, "%zu processes, ", processes);
    pb_print_f(out, "%zu threads: %.1f s, %s samples, %s missed", r->nthreads, secs,
               number(&a, r->samples), number(&a, r->missed));
    if (r->torn)
        pb_print_f(out, ", %s torn", number(&a, r->torn));
    pb_print_f(out, "; cost %.1f %% of a core", 100.0 * (double)r->cpu_ns / (double)r->length_ns);
    if (r->stops)
        pb_print_f(out, ", stops: %s of %.0f us", number(&a, r->stops),
                   r->pause_us / (double)r->stops);
    pb_print_puts(out, "\n");
    if (r->full)
        pb_print_puts(out, "ended early: no room for more; a lower rate (-r) reaches further\n");
    if (r->has_idle)
        pb_print_puts(out, "every thread was at rest; shown all the same\n");
    pb_arena_finish(&a);
}

/* A file that nobody else had, in the folder where the user is. */
static int create_file(struct job *j, const char **ret)
{
    const char *suffix = j->format->endings;
    int len = (int)strcspn(suffix, " "), fd;
    struct pb_ctx *ctx = j->ctx;
    time_t now = time(NULL);
    struct tm tm;

    localtime_r(&now, &tm);
    for (int i = 1; i < NAMES_TRIED; i++) {
        const char *stem = pb_arena_printf(&ctx->arena, "flamegraph-%d-%02d%02d%02d",
                                           (int)ctx->pid, tm.tm_hour, tm.tm_min, tm.tm_sec);

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

static int write_own(struct job *j, const struct pb_buf *text, const char **ret)
{
    int fd = create_file(j, ret), rc = 0;

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
    struct pb_outlet o;
    int rc;

    if (pb_outlet_open(j->ctx, &o, j->path, false) < 0)
        return -1;
    pb_buf_add(&j->ctx->out.buf, text->data, text->len);
    rc = pb_outlet_flush(&o);
    return pb_outlet_close(&o, rc == 0) < 0 ? -1 : rc;
}

static int save(struct job *j, struct pb_sampler *s)
{
    struct pb_recording *r = pb_sampler_recording(s);
    struct pb_buf text = PB_BUF_INIT;
    struct pb_print *out = &j->ctx->out;
    const char *path = j->path;
    int rc;

    if (!r->samples)
        return pb_err_set(&j->ctx->err, PB_NO_TARGET, "%d: the process ended before a sample was "
                                                      "taken", (int)r->pid);
    pb_recording_filter(r, &j->filter);
    if (!r->nentries)
        return pb_err_set(&j->ctx->err, PB_FAIL, "none of %llu samples is what was asked for (%s)",
                          (unsigned long long)r->samples,
                          j->filter.threads ? "--thread" : j->filter.gil ? "--gil" : "--cpu");
    j->format->write(r, &text);
    rc = path ? write_named(j, &text) : write_own(j, &text, &path);
    pb_buf_finish(&text);
    if (rc < 0 || strcmp(path, "-") == 0)
        return rc;
    put_summary(out, r, pb_sampler_processes(s));
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

static int run(struct pb_ctx *ctx)
{
    struct sigaction act = {.sa_handler = on_interrupt}, old;
    struct job j = {.ctx = ctx};
    struct pb_sampler *s = NULL;
    int rc = read_options(&j);

    if (rc == 0)
        rc = pb_sampler_open(&s, ctx->pid, ctx->command_line, &j.sampler, &ctx->err);
    if (rc == 0) {
        sigaction(SIGINT, NULL, &old);
        if (old.sa_handler != SIG_IGN)
            sigaction(SIGINT, &act, NULL);
        record(&j, s);
        sigaction(SIGINT, &old, NULL);
        rc = save(&j, s);
    }
    pb_sampler_close(s);
    if (j.has_threads)
        regfree(&j.threads);
    return rc;
}
