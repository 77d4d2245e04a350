/*
 * probing TARGET top - what a process does, live.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/hot.h"
#include "cli/outlet.h"
#include "profile/sampler.h"

enum { PIPE_ROWS = 15, THREADS_SHOWN = 8, HEAD_LINES = 5 };

static int run(struct pb_ctx *ctx);

static const struct pb_opt options[] = {
    {.name = "interval", .letter = 'i', .type = PB_OPT_NUM, .arg = "SECS", .min = 0.1, .max = 3600,
     .help = "time that one picture covers (default 1)"},
    {.name = "count", .type = PB_OPT_INT, .arg = "N", .min = 1, .max = 1000000000,
     .help = "end after N pictures (default: at Ctrl-C, or q)"},
    {.name = "rate", .letter = 'r', .type = PB_OPT_INT, .arg = "HZ", .min = 1, .max = 1000,
     .help = "samples a second of each thread (default 100)"},
    {.name = "lines", .letter = 'l', .help = "by line, not by function"},
    {.name = "total", .help = "sorted by time with callees, not by a function's own (key s)"},
    {.name = "native", .letter = 'n',
     .help = "C and C++ frames as well, and threads without Python"},
    {.name = "subprocesses", .letter = 's', .help = "children too"},
    {.name = NULL},
};

const struct pb_cmd pb_cmd_top = {
    .name = "top",
    .summary = "Show live what the target's functions and threads do",
    .details =
        "Samples from outside like flamegraph. 100 % is one thread for the whole time. On a\n"
        "terminal: s sorts by own or by total time, q ends. In a pipe: plain text, one picture\n"
        "after the other.",
    .options = options,
    .target = PB_TARGET_PROCESS,
    .examples = "probing 4242 top              # a live screen\n"
                "probing 4242 top --count 1 -i 5 | head   # five seconds as text\n",
    .run = run,
};

/* All that a signal handler can get at. */
static _Atomic bool ended;

static void on_interrupt(int signo)
{
    (void)signo;
    atomic_store(&ended, true);
}

struct screen {
    struct pb_ctx *ctx;
    struct pb_sampler *sampler;
    bool by_total;
    bool live; /* a terminal: one picture replaces the other */
    struct termios before;
};

static int by_total(const void *x, const void *y)
{
    const struct pb_hot *a = x, *b = y;

    return a->total_ns != b->total_ns ? (a->total_ns > b->total_ns ? -1 : 1) : 0;
}

static double percent(uint64_t part, const struct pb_recording *r)
{
    return r->length_ns ? 100.0 * (double)part / (double)r->length_ns : 0;
}

/* One line of a picture, cut to the terminal. */
static void put_line(struct screen *s, enum pb_style style, const char *text)
{
    struct pb_print *out = &s->ctx->out;
    struct pb_arena a = PB_ARENA_INIT;
    const char *clean = pb_text_clean(&a, text);

    if (out->width > 0)
        clean = pb_text_end(&a, clean, (size_t)out->width);
    pb_print_text(out, style, clean);
    pb_print_puts(out, s->live ? "\x1b[K\n" : "\n");
    pb_arena_finish(&a);
}

struct thread_sum {
    uint32_t thread;
    uint64_t all_ns, run_ns, gil_ns, wait_ns;
    uint64_t top_ns;
    uint32_t top_node;
};

static int busiest(const void *x, const void *y)
{
    const struct thread_sum *a = x, *b = y;

    if (a->run_ns != b->run_ns)
        return a->run_ns > b->run_ns ? -1 : 1;
    return a->thread < b->thread ? -1 : a->thread > b->thread;
}

static size_t sum_threads(const struct pb_recording *r, struct pb_arena *a,
                          struct thread_sum **ret)
{
    struct thread_sum *v = PB_NEW_N(a, struct thread_sum, r->nthreads + 1);
    size_t n = 0;

    for (size_t i = 0; i < r->nentries; i++) {
        const struct pb_rec_sample *e = &r->entries[i];
        struct thread_sum *t = &v[e->thread];

        t->thread = e->thread;
        t->all_ns += e->weight_ns;
        t->run_ns += e->on_cpu ? e->weight_ns : 0;
        t->gil_ns += e->holds_gil ? e->weight_ns : 0;
        t->wait_ns += e->waits_gil ? e->weight_ns : 0;
        if (e->weight_ns > t->top_ns) {
            t->top_ns = e->weight_ns;
            t->top_node = e->node;
        }
    }
    for (size_t i = 0; i < r->nthreads; i++)
        if (v[i].all_ns)
            v[n++] = v[i];
    qsort(v, n, sizeof *v, busiest);
    *ret = v;
    return n;
}

static void put_head(struct screen *s, const struct pb_recording *r, const struct thread_sum *v,
                     size_t n, struct pb_arena *a)
{
    uint64_t run = 0, gil = 0, wait = 0;

    for (size_t i = 0; i < n; i++) {
        run += v[i].run_ns;
        gil += v[i].gil_ns;
        wait += v[i].wait_ns;
    }
    put_line(s, PB_BOLD, pb_arena_printf(a, "%d · Python %s · %s", (int)r->pid, r->python,
                                         r->command));
    put_line(s, PB_PLAIN,
             pb_arena_printf(a, "%zu threads, %.2f running · GIL held %.0f %%, %.2f waiting for it "
                                "· %llu samples, %llu missed, %.1f %% of a core",
                             n, percent(run, r) / 100, percent(gil, r), percent(wait, r) / 100,
                             (unsigned long long)r->samples, (unsigned long long)r->missed,
                             percent(r->cpu_ns, r)));
    put_line(s, PB_PLAIN, "");
}

static void put_functions(struct screen *s, const struct pb_recording *r, size_t rows,
                          struct pb_arena *a)
{
    struct pb_hot *v;
    uint64_t all;
    size_t n = pb_hot_frames(r, a, &v, &all);

    if (s->by_total)
        qsort(v, n, sizeof *v, by_total);
    put_line(s, PB_DIM, "   own  total  function");
    for (size_t i = 0; i < n && i < rows && (s->by_total || v[i].self_ns); i++) {
        const char *state = v[i].self_ns ? pb_hot_state(&v[i]) : NULL, *place = "";

        if (v[i].frame->file[0])
            place = v[i].frame->lineno > 0
                        ? pb_arena_printf(a, "%s:%d", pb_stacks_short_file(v[i].frame->file),
                                          v[i].frame->lineno)
                        : pb_stacks_short_file(v[i].frame->file);
        put_line(s, PB_PLAIN,
                 pb_arena_printf(a, "%5.1f%% %5.1f%%  %s  %s%s%s", percent(v[i].self_ns, r),
                                 percent(v[i].total_ns, r), v[i].frame->func, place,
                                 state ? "  " : "", state ? state : ""));
    }
}

static void put_threads(struct screen *s, const struct pb_recording *r,
                        const struct thread_sum *v, size_t n, struct pb_arena *a)
{
    put_line(s, PB_PLAIN, "");
    put_line(s, PB_DIM, "   run    gil   wait  thread");
    for (size_t i = 0; i < n && i < THREADS_SHOWN; i++) {
        const struct pb_rec_thread *t = &r->threads[v[i].thread];
        uint32_t node = v[i].top_node;

        put_line(s, PB_PLAIN,
                 pb_arena_printf(a, "%5.1f%% %5.1f%% %5.1f%%  %d %s  in %s",
                                 percent(v[i].run_ns, r), percent(v[i].gil_ns, r),
                                 percent(v[i].wait_ns, r), (int)t->tid, t->name,
                                 node ? r->stacks.frames[r->stacks.nodes[node].frame].func : "?"));
    }
    if (n > THREADS_SHOWN)
        put_line(s, PB_DIM, pb_arena_printf(a, "%zu more threads", n - THREADS_SHOWN));
}

static int show(struct screen *s)
{
    struct pb_recording *r = pb_sampler_recording(s->sampler);
    struct pb_arena a = PB_ARENA_INIT;
    struct thread_sum *threads;
    size_t n, rows = PIPE_ROWS;
    int lines = s->live ? pb_outlet_screen() : 0;

    n = sum_threads(r, &a, &threads);
    if (lines > 0) {
        size_t other = HEAD_LINES + 2 + (n < THREADS_SHOWN ? n : THREADS_SHOWN + 1);

        rows = (size_t)lines > other + 3 ? (size_t)lines - other : 3;
        pb_print_puts(&s->ctx->out, "\x1b[H");
    }
    put_head(s, r, threads, n, &a);
    pb_recording_filter(r, &(struct pb_rec_filter){0});
    put_functions(s, r, rows, &a);
    put_threads(s, r, threads, n, &a);
    pb_print_puts(&s->ctx->out, s->live ? "\x1b[J" : "\n");
    pb_arena_finish(&a);
    return pb_print_flush(&s->ctx->out, &s->ctx->err);
}

static void open_screen(struct screen *s)
{
    struct termios raw;

    s->live = s->ctx->out.is_terminal && isatty(STDIN_FILENO) &&
              tcgetattr(STDIN_FILENO, &s->before) == 0;
    if (!s->live)
        return;
    raw = s->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    pb_print_puts(&s->ctx->out, "\x1b[?1049h\x1b[?25l");
}

static void close_screen(struct screen *s)
{
    if (!s->live)
        return;
    pb_print_puts(&s->ctx->out, "\x1b[?25h\x1b[?1049l");
    pb_print_flush(&s->ctx->out, NULL);
    tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
}

static void read_keys(struct screen *s)
{
    struct pollfd p = {STDIN_FILENO, POLLIN, 0};
    char key;

    while (s->live && poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &key, 1) == 1) {
        if (key == 'q' || key == 'Q')
            atomic_store(&ended, true);
        if (key == 's')
            s->by_total = !s->by_total;
    }
}

/* Samples for one picture; false: all processes have ended. */
static bool watch(struct screen *s, double secs)
{
    uint64_t end = pb_clock_ns() + (uint64_t)(secs * 1e9);

    pb_sampler_restart(s->sampler);
    do {
        pb_sampler_sleep(s->sampler);
        read_keys(s);
        if (!pb_sampler_tick(s->sampler))
            return false;
    } while (!atomic_load(&ended) && pb_clock_ns() < end);
    return true;
}

static int look(struct screen *s)
{
    double secs = pb_opt_num(s->ctx, "interval", 1);
    long count = pb_opt_int(s->ctx, "count", 0);
    bool living = true;
    int rc = 0;

    for (long i = 0; living && rc == 0 && !atomic_load(&ended) && (!count || i < count); i++) {
        living = watch(s, secs);
        if (living && !s->ctx->out.broken && !(atomic_load(&ended) && s->live))
            rc = show(s);
        if (s->ctx->out.broken)
            break;
    }
    return rc;
}

static int run(struct pb_ctx *ctx)
{
    struct pb_sampler_opts o = {.rate = (double)pb_opt_int(ctx, "rate", 100),
                                .native = pb_opt_flag(ctx, "native"),
                                .children = pb_opt_flag(ctx, "subprocesses"),
                                .by_function = !pb_opt_flag(ctx, "lines")};
    struct screen s = {.ctx = ctx, .by_total = pb_opt_flag(ctx, "total")};
    struct sigaction act = {.sa_handler = on_interrupt}, old;
    int rc;

    if (pb_sampler_open(&s.sampler, ctx->pid, ctx->command_line, &o, &ctx->err) < 0)
        return -1;
    sigaction(SIGINT, NULL, &old);
    if (old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    open_screen(&s);
    rc = look(&s);
    close_screen(&s);
    sigaction(SIGINT, &old, NULL);
    pb_sampler_close(s.sampler);
    return rc;
}
