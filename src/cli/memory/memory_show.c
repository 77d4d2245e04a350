#include <math.h>
#include <stdio.h>
#include <time.h>

#include "cli/memory/memory.h"
#include "host/text/json_write.h"
#include "display/spark.h"

enum { NAME_WIDTH = 32, AMOUNT_WIDTH = 10 };

/* Seconds of history that a trend can be told from. */
#define SPAN_MIN 5

/* A change over the window that is worth a word: a percent, and a megabyte. */
static bool is_trend(const struct pb_memory_kind *k, double span)
{
    double change = fabs(k->trend) * span / 60;

    return !isnan(k->trend) && span >= SPAN_MIN && change >= 1 && change >= k->now / 100;
}

/* "last 10 min", "last 40 s", or nothing when there is no history. */
static void window_text(char *buf, size_t cap, double span)
{
    if (span < 1)
        buf[0] = '\0';
    else if (span < 100)
        snprintf(buf, cap, "last %.0f s", span);
    else
        snprintf(buf, cap, "last %.0f min", span / 60);
}

/* "train.py --bs 8" of "jobs/train.py --bs 8". */
static const char *base_command(const char *command)
{
    const char *name = command;

    for (const char *p = command; *p && *p != ' '; p++)
        name = *p == '/' && p[1] && p[1] != ' ' ? p + 1 : name;
    return name;
}

static void print_head(struct pb_print *out, const struct pb_memory *p, struct pb_arena *a)
{
    char text[64], seen[64] = "";
    time_t last = (time_t)p->last;
    struct tm tm;
    const char *name = pb_arena_printf(a, "process %d", (int)p->pid);

    if (p->command)
        name = pb_text_end(
            a, pb_text_clean(a, pb_arena_printf(a, "%s  %s", name, base_command(p->command))),
            NAME_WIDTH);
    pb_print_cell(out, PB_BOLD, name, NAME_WIDTH, false);
    pb_print_cell(out, PB_DIM, p->alive ? "now" : "last", AMOUNT_WIDTH, true);
    pb_print_cell(out, PB_DIM, "peak", AMOUNT_WIDTH, true);
    window_text(text, sizeof text, p->last - p->first);
    if (!p->alive && p->last > 0 && localtime_r(&last, &tm))
        strftime(seen, sizeof seen, text[0] ? ", until %F %T" : "seen %F %T", &tm);
    if (text[0] || seen[0]) {
        pb_print_puts(out, "   ");
        pb_print_text(out, PB_DIM, pb_arena_printf(a, "%s%s", text, seen));
    }
    pb_print_puts(out, "\n");
}

static void print_kind(struct pb_print *out, const struct pb_memory_kind *k, double span)
{
    struct pb_buf bars = PB_BUF_INIT;
    char now[16], peak[16];

    pb_megabytes(now, k->now);
    pb_megabytes(peak, k->peak);
    pb_print_cell(out, PB_PLAIN, k->name, NAME_WIDTH, false);
    pb_print_cell(out, PB_PLAIN, now, AMOUNT_WIDTH, true);
    pb_print_cell(out, PB_PLAIN, peak, AMOUNT_WIDTH, true);
    if (span >= 1) {
        pb_spark(&bars, k->points, PB_MEMORY_POINTS);
        pb_print_puts(out, "   ");
        pb_print_text(out, PB_CYAN, bars.data);
    }
    if (is_trend(k, span)) {
        pb_print_puts(out, "  ");
        pb_print_style(out, k->trend > 0 ? PB_YELLOW : PB_GREEN);
        pb_print_f(out, fabs(k->trend) >= 10 ? "%+.0f ±%.0f MB/min" : "%+.1f ±%.1f MB/min",
                   k->trend, k->error);
        pb_print_style(out, PB_PLAIN);
    }
    pb_print_puts(out, "\n");
    pb_buf_finish(&bars);
}

void pb_memory_text(struct pb_print *out, const struct pb_memories *m, struct pb_arena *a)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct pb_memory *p = &m->v[i];

        if (i)
            pb_print_puts(out, "\n");
        print_head(out, p, a);
        for (size_t k = 0; k < p->nkinds; k++)
            print_kind(out, &p->kinds[k], p->last - p->first);
    }
}

static void add_number(struct pb_buf *b, double v)
{
    if (isfinite(v))
        pb_buf_printf(b, "%.3f", v);
    else
        pb_buf_puts(b, "null");
}

static void member(struct pb_buf *b, const char *key, double v)
{
    pb_json_key(b, key);
    add_number(b, v);
}

static void json_kind(struct pb_buf *b, const struct pb_memory_kind *k)
{
    pb_buf_putc(b, '{');
    pb_json_key(b, "kind");
    pb_json_string(b, k->name);
    member(b, "now_mb", k->now);
    member(b, "peak_mb", k->peak);
    member(b, "mb_per_min", k->trend);
    member(b, "mb_per_min_error", k->error);
    pb_json_key(b, "points_mb");
    pb_buf_putc(b, '[');
    for (size_t i = 0; i < PB_MEMORY_POINTS; i++) {
        pb_json_comma(b);
        add_number(b, k->points[i]);
    }
    pb_buf_puts(b, "]}");
}

static void json_process(struct pb_buf *b, const struct pb_memory *p)
{
    pb_buf_putc(b, '{');
    pb_json_key(b, "pid");
    pb_json_int(b, p->pid);
    pb_json_key(b, "alive");
    pb_json_bool(b, p->alive);
    pb_json_key(b, "command");
    pb_json_string_or_null(b, p->command);
    member(b, "window_s", p->last - p->first);
    member(b, "last", p->last > 0 ? p->last : (double)NAN);
    pb_json_key(b, "kinds");
    pb_buf_putc(b, '[');
    for (size_t k = 0; k < p->nkinds; k++) {
        pb_json_comma(b);
        json_kind(b, &p->kinds[k]);
    }
    pb_buf_puts(b, "]}");
}

void pb_memory_json(struct pb_buf *b, const struct pb_memories *m)
{
    if (m->n != 1)
        pb_buf_putc(b, '[');
    for (size_t i = 0; i < m->n; i++) {
        pb_json_comma(b);
        json_process(b, &m->v[i]);
    }
    pb_buf_puts(b, m->n != 1 ? "]\n" : "\n");
}
