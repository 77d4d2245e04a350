#include "cli/crash/crash_show.h"

#include <string.h>
#include <time.h>

#include "display/amount.h"
#include "display/spark.h"
#include "display/stack.h"
#include "display/table.h"

static const char *when(const struct pb_json *head, struct pb_arena *a)
{
    time_t seconds = (time_t)(pb_json_whole(head, "time_ns", 0) / 1000000000);
    struct tm tm;
    char text[40];

    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &tm));
    return pb_arena_strdup(a, text);
}

static const char *rank_text(const struct pb_json *head, struct pb_arena *a)
{
    int64_t rank = pb_json_whole(head, "rank", -1), world = pb_json_whole(head, "world_size", -1);

    if (rank < 0)
        return "-";
    return world > 0 ? pb_arena_printf(a, "%lld/%lld", (long long)rank, (long long)world)
                     : pb_arena_printf(a, "%lld", (long long)rank);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* "step  train.py:12"; the user's own line where there is one. */
static const char *place(const struct pb_json *head, bool whole_path, struct pb_arena *a)
{
    const struct pb_json *f = pb_json_get(head, "user");
    const char *file;

    if (!f || f->type != PB_J_OBJECT)
        f = pb_json_get(head, "at");
    if (!f || f->type != PB_J_OBJECT)
        return pb_json_str(head, "native", "");
    file = pb_json_str(f, "file", "?");
    return pb_arena_printf(a, "%s %s:%lld", pb_json_str(f, "func", "?"),
                           whole_path ? file : base_name(file),
                           (long long)pb_json_whole(f, "lineno", 0));
}

void pb_crash_list_text(struct pb_print *out, const struct pb_crash_file *v, size_t n,
                        struct pb_arena *a)
{
    static const struct pb_column columns[] = {
        {.title = "id"},
        {.title = "time"},
        {.title = "rank"},
        {.title = "cause", .shrinks = true},
        {.title = "line", .shrinks = true},
        {.title = "command", .shrinks = true},
    };
    enum { N = sizeof columns / sizeof *columns };
    struct pb_table t = {columns, N, PB_NEW_N(a, const char *, N * n + 1), n};

    for (size_t i = 0; i < n; i++) {
        const char **cell = t.cells + i * N;

        cell[0] = v[i].id;
        cell[1] = when(v[i].head, a);
        cell[2] = rank_text(v[i].head, a);
        cell[3] = pb_text_clean(a, pb_json_str(v[i].head, "cause", ""));
        cell[4] = pb_text_clean(a, place(v[i].head, false, a));
        cell[5] = pb_text_clean(a, pb_json_str(v[i].head, "command", ""));
    }
    pb_table_print(out, &t);
}

void pb_crash_list_json(struct pb_buf *out, const struct pb_crash_file *v, size_t n)
{
    pb_buf_putc(out, '[');
    for (size_t i = 0; i < n; i++)
        pb_buf_printf(out, "%s%s", i ? ",\n" : "", v[i].text);
    pb_buf_puts(out, "]\n");
}

void pb_crash_show_json(struct pb_buf *out, const struct pb_crash_file *f, const char *stacks,
                        size_t len)
{
    size_t head = strlen(f->text);

    while (len && stacks[len - 1] == '\n')
        len--;
    pb_buf_add(out, f->text, head ? head - 1 : 0);
    pb_buf_puts(out, ",\"process\":");
    pb_buf_add(out, len ? stacks : "null", len ? len : 4);
    pb_buf_puts(out, "}\n");
}

static void line(struct pb_print *out, const char *title, const char *text)
{
    pb_print_style(out, PB_DIM);
    pb_print_f(out, "  %-11s", title);
    pb_print_style(out, PB_PLAIN);
    pb_print_text(out, PB_PLAIN, text);
    pb_print_puts(out, "\n");
}

static void show_training(struct pb_print *out, const struct pb_json *head, struct pb_arena *a)
{
    static const char *const parts[] = {"phase", "module"};
    const char *op = pb_json_str(head, "collective", NULL), *state;
    int64_t step = pb_json_whole(head, "step", -1), seq = pb_json_whole(head, "collective_seq", -1);
    struct pb_buf b = PB_BUF_INIT;

    if (step >= 0)
        pb_buf_puts(&b, pb_amount_count(a, step, false));
    for (size_t i = 0; i < 2; i++)
        if (pb_json_str(head, parts[i], NULL))
            pb_buf_printf(&b, "%s%s", b.len ? " · " : "", pb_json_str(head, parts[i], NULL));
    if (b.len)
        line(out, "step", b.data);
    pb_buf_clear(&b);
    if (op) {
        state = pb_json_str(head, "collective_state", NULL);
        pb_buf_puts(&b, op);
        if (seq >= 0)
            pb_buf_printf(&b, " #%lld", (long long)seq);
        if (pb_json_str(head, "group", NULL))
            pb_buf_printf(&b, " in group %s", pb_json_str(head, "group", ""));
        if (state)
            pb_buf_printf(&b, ": %s", state);
        line(out, "collective", b.data);
    }
    pb_buf_finish(&b);
}

static void show_memory(struct pb_print *out, const struct pb_json *head)
{
    const struct pb_json *list = pb_json_get(head, "rss_mb_last_minute");
    size_t n = list && list->type == PB_J_ARRAY ? list->n : 0;
    double now = pb_json_number(head, "rss_mb", -1), v[64];
    char text[16], peak[16];
    struct pb_buf b = PB_BUF_INIT;

    if (now < 0)
        return;
    pb_megabytes(text, now);
    pb_megabytes(peak, pb_json_number(head, "rss_peak_mb", now));
    pb_buf_printf(&b, "%s resident, %s at most", text, peak);
    if (n > 64)
        n = 64;
    for (size_t i = 0; i < n; i++)
        v[i] = list->items[i].type == PB_J_INT ? (double)list->items[i].v.i : list->items[i].v.d;
    if (n > 1) {
        pb_buf_puts(&b, "; last minute ");
        pb_spark(&b, v, n);
    }
    line(out, "memory", b.data);
    pb_buf_finish(&b);
}

static void show_lines(struct pb_print *out, const struct pb_json *head, const char *key,
                       const char *title)
{
    const struct pb_json *list = pb_json_get(head, key);

    for (size_t i = 0; list && list->type == PB_J_ARRAY && i < list->n; i++)
        if (list->items[i].type == PB_J_STRING)
            line(out, title, list->items[i].s);
}

static void show_head(struct pb_print *out, const struct pb_json *head, bool verbose,
                      struct pb_arena *a)
{
    const char *rank = rank_text(head, a);

    pb_print_text(out, PB_RED, pb_json_str(head, "cause", "?"));
    pb_print_puts(out, "\n");
    if (*place(head, verbose, a))
        line(out, "line", place(head, verbose, a));
    line(out, "process",
         pb_arena_printf(a, "%lld%s%s on %s: %s", (long long)pb_json_whole(head, "pid", 0),
                         *rank == '-' ? "" : ", rank ", *rank == '-' ? "" : rank,
                         pb_json_str(head, "host", "?"), pb_json_str(head, "command", "?")));
    line(out, "time", when(head, a));
    show_training(out, head, a);
    show_memory(out, head);
    show_lines(out, head, "gpu_errors", "gpu");
    show_lines(out, head, "evidence", "evidence");
    if (pb_json_str(head, "trouble", NULL))
        line(out, "no stacks", pb_json_str(head, "trouble", ""));
}

/* The crashed thread first, then the others if they are wanted. */
static void show_threads(struct pb_print *out, struct pb_snapshot *s, int64_t tid, bool all,
                         bool verbose)
{
    size_t others = s->nthreads;

    for (size_t i = 0; i < s->nthreads; i++) {
        struct pb_thread t = s->threads[i];

        if (t.ns_tid != tid && t.tid != tid)
            continue;
        memmove(s->threads + 1, s->threads, i * sizeof t);
        s->threads[0] = t;
        others--;
        break;
    }
    if (!all && others < s->nthreads)
        s->nthreads = 1;
    pb_stack_text_threads(out, s, verbose);
    if (s->nthreads == 1 && others)
        pb_print_f(out, "%zu more thread%s: -a\n", others, others == 1 ? "" : "s");
}

void pb_crash_show_text(struct pb_print *out, const struct pb_json *head, const char *stacks,
                        size_t len, bool all, bool verbose)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_stack_process *v = NULL;
    size_t n = 0;

    show_head(out, head, verbose, &a);
    if (stacks && pb_stack_parse(stacks, len, &a, &v, &n, NULL) == 0 && n && v[0].snapshot) {
        pb_print_puts(out, "\n");
        show_threads(out, v[0].snapshot, pb_json_whole(head, "tid", 0), all, verbose);
    }
    pb_arena_finish(&a);
}
