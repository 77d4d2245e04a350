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
#include "cli/destination.h"
#include "cli/flame/hot.h"
#include "host/text/number.h"
#include "recording/sampler.h"

enum { PIPE_ROWS = 15, THREADS_SHOWN = 8, ROWS_MIN = 3 };
/* Of a screen: lines over the functions, with the last one, which stays empty; over the threads. */
enum { HEAD_LINES = 5, THREAD_LINES = 2 };

#define KEYS "1 own  2 total  s own or total  l lines or functions  space now  ? keys  q end"

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
        "Samples from outside like flamegraph. 100 % is one thread for the whole time. In a pipe:\n"
        "plain text, one picture after the other. Keys on a terminal: 1 sorts by own time, 2 by\n"
        "total time, s changes between them, l between functions and lines, space shows what\n"
        "there is now, ? says the keys, q ends.",
    .options = options,
    .target = PB_TARGET_PROCESS,
    .examples = "probing 4242 top              # a live screen\n"
                "probing 4242 top --count 1 -i 5 | head   # five seconds as text\n",
    .run = run,
};

/* All that signal handlers can get at. */
static _Atomic bool ended, suspended;

static void on_interrupt(int signo)
{
    (void)signo;
    atomic_store(&ended, true);
}

static void on_suspend(int signo)
{
    (void)signo;
    atomic_store(&suspended, true);
}

struct screen {
    struct pb_ctx *ctx;
    struct pb_sampler *sampler;
    bool by_total, by_line;
    bool help; /* the keys are shown */
    bool now;  /* the picture is not waited for */
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
             pb_arena_printf(a, "%zu thread%s, %.2f running · GIL held %.0f %%, %.2f waiting for "
                                "it · %llu samples, %llu missed, %.1f %% of a core",
                             n, pb_plural(n, "s"), percent(run, r) / 100, percent(gil, r),
                             percent(wait, r) / 100, (unsigned long long)r->samples,
                             (unsigned long long)r->missed, percent(r->cpu_ns, r)));
    put_line(s, PB_DIM, s->help ? KEYS : "");
}

static void put_functions(struct screen *s, const struct pb_recording *r, size_t rows,
                          struct pb_arena *a)
{
    struct pb_hot *v;
    uint64_t all;
    size_t n = pb_hot_frames(r, a, &v, &all);

    if (s->by_total)
        qsort(v, n, sizeof *v, by_total);
    put_line(s, PB_DIM, s->by_line ? "   own  total  line" : "   own  total  function");
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
                        const struct thread_sum *v, size_t n, size_t shown, struct pb_arena *a)
{
    if (!shown)
        return;
    put_line(s, PB_PLAIN, "");
    put_line(s, PB_DIM, "   run    gil   wait  thread");
    for (size_t i = 0; i < n && i < shown; i++) {
        const struct pb_rec_thread *t = &r->threads[v[i].thread];
        uint32_t node = v[i].top_node;

        put_line(s, PB_PLAIN,
                 pb_arena_printf(a, "%5.1f%% %5.1f%% %5.1f%%  %d %s  in %s",
                                 percent(v[i].run_ns, r), percent(v[i].gil_ns, r),
                                 percent(v[i].wait_ns, r), (int)t->tid, t->name,
                                 node ? r->stacks.frames[r->stacks.nodes[node].frame].func : "?"));
    }
    if (n > shown)
        put_line(s, PB_DIM, pb_arena_printf(a, "%zu more thread%s", n - shown,
                                            pb_plural(n - shown, "s")));
}

/* Lines for functions and for threads that a screen has room for. */
static void share_screen(size_t lines, size_t nthreads, size_t *ret_rows, size_t *ret_threads)
{
    size_t free = lines > HEAD_LINES ? lines - HEAD_LINES : 0, threads;

    *ret_threads = nthreads < THREADS_SHOWN ? nthreads : THREADS_SHOWN;
    threads = THREAD_LINES + *ret_threads + (nthreads > *ret_threads);
    if (free < threads + ROWS_MIN) {
        *ret_threads = free > THREAD_LINES + 1 + ROWS_MIN ? free - THREAD_LINES - 1 - ROWS_MIN : 0;
        threads = *ret_threads ? THREAD_LINES + 1 + *ret_threads : 0;
    }
    *ret_rows = free > threads ? free - threads : 0;
}

static int show(struct screen *s)
{
    struct pb_recording *r = pb_sampler_recording(s->sampler);
    struct pb_arena a = PB_ARENA_INIT;
    struct thread_sum *threads;
    size_t n, rows = PIPE_ROWS, shown = THREADS_SHOWN;
    int lines = s->live ? pb_destination_screen() : 0;

    pb_print_measure(&s->ctx->out);
    n = sum_threads(r, &a, &threads);
    if (lines > 0) {
        share_screen((size_t)lines, n, &rows, &shown);
        pb_print_puts(&s->ctx->out, "\x1b[H");
    }
    put_head(s, r, threads, n, &a);
    pb_recording_filter(r, &(struct pb_rec_filter){0});
    put_functions(s, r, rows, &a);
    put_threads(s, r, threads, n, shown, &a);
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

/* Those of top and of py-spy top, as far as there is what they mean. */
static void press(struct screen *s, char key)
{
    switch (key) {
    case 'q':
    case 'Q':
        atomic_store(&ended, true);
        break;
    case '1':
    case '2':
        s->by_total = key == '2';
        break;
    case 's':
        s->by_total = !s->by_total;
        break;
    case 'l':
    case 'L':
        s->by_line = !s->by_line;
        pb_sampler_by_function(s->sampler, !s->by_line);
        break;
    case 'h':
    case '?':
        s->help = !s->help;
        break;
    case ' ':
        s->now = true;
        break;
    default:
        break;
    }
}

static void read_keys(struct screen *s)
{
    struct pollfd p = {STDIN_FILENO, POLLIN, 0};
    char key;

    while (s->live && poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &key, 1) == 1)
        press(s, key);
}

/* Ctrl-Z: the shell gets its screen back, until it lets us go on. */
static void suspend(struct screen *s)
{
    close_screen(s);
    raise(SIGSTOP);
    open_screen(s);
}

/* Begins a picture; returns when it is to be shown. */
static uint64_t begin_picture(struct screen *s, double secs)
{
    pb_sampler_restart(s->sampler);
    s->now = false;
    return pb_clock_ns() + (uint64_t)(secs * 1e9);
}

/* Samples for one picture; false: all processes have ended. */
static bool watch(struct screen *s, double secs)
{
    uint64_t end = begin_picture(s, secs);

    do {
        pb_sampler_sleep(s->sampler);
        if (atomic_exchange(&suspended, false)) {
            suspend(s);
            end = begin_picture(s, secs);
        }
        read_keys(s);
        if (!pb_sampler_tick(s->sampler))
            return false;
    } while (!atomic_load(&ended) && !s->now && pb_clock_ns() < end);
    return true;
}

static int sample_once(struct screen *s)
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
                                .by_process = pb_opt_flag(ctx, "subprocesses"),
                                .by_function = !pb_opt_flag(ctx, "lines")};
    struct screen s = {.ctx = ctx, .by_total = pb_opt_flag(ctx, "total"),
                       .by_line = pb_opt_flag(ctx, "lines")};
    struct sigaction act = {.sa_handler = on_interrupt}, stop = {.sa_handler = on_suspend}, old;
    int rc;

    s.sampler = pb_sampler_create(&o);
    if (pb_sampler_add(s.sampler, ctx->pid, ctx->command_line, &ctx->err) < 0) {
        pb_sampler_destroy(s.sampler);
        return -1;
    }
    sigaction(SIGINT, NULL, &old);
    if (old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    open_screen(&s);
    if (s.live)
        sigaction(SIGTSTP, &stop, NULL);
    rc = sample_once(&s);
    close_screen(&s);
    sigaction(SIGINT, &old, NULL);
    pb_sampler_destroy(s.sampler);
    return rc;
}
