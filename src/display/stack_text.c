#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host/text/number.h"
#include "display/stack.h"

#define FUNC_WIDTH_MAX 48
/* A value is one line, also where no terminal sets the width; JSON has all of it. */
#define VALUE_WIDTH 160
#define DOT " \xc2\xb7 " /* a middle dot */
/* In front of what belongs to a frame: its source, and its variables. */
#define INDENT "       "
#define ARGUMENT "   arg "

/* What stands in front of these is where packages are installed, not what they are. */
static const char *const roots[] = {"/site-packages/", "/dist-packages/"};

/* "…/lib/python3.11/threading.py": the part behind the standard library's folder. */
static const char *behind_stdlib(const char *path)
{
    const char *p = strstr(path, "/lib/python3.");

    if (!p)
        return NULL;
    p = strchr(p + 13, '/');
    return p && p[1] ? p + 1 : NULL;
}

/* Shortens the path of an installed module; the user's own files keep theirs. */
static const char *short_path(const char *path, bool verbose)
{
    const char *p;

    if (verbose || path[0] != '/')
        return path;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if ((p = strstr(path, roots[i])))
            return p + strlen(roots[i]);
    p = behind_stdlib(path);
    return p ? p : path;
}

static const char *location(const struct pb_frame *f, bool verbose, struct pb_arena *a)
{
    const char *base;

    if (f->file && f->lineno > 0)
        return pb_arena_printf(a, "%s:%d", short_path(f->file, verbose), f->lineno);
    if (f->file)
        return short_path(f->file, verbose);
    if (!f->module || !f->func)
        return "";
    base = strrchr(f->module, '/');
    return base && !verbose ? base + 1 : f->module;
}

static void print_header(struct pb_print *out, const struct pb_thread *t)
{
    pb_print_style(out, PB_BOLD);
    pb_print_f(out, "Thread %d", (int)t->tid);
    pb_print_style(out, PB_PLAIN);
    if (t->ns_tid != t->tid)
        pb_print_f(out, " (%d inside)", (int)t->ns_tid);
    if (t->name) {
        pb_print_puts(out, " \"");
        pb_print_text(out, PB_PLAIN, t->name);
        pb_print_puts(out, "\"");
    }
    pb_print_f(out, DOT "%s", pb_state_name(t->state));
    if (t->wait)
        pb_print_f(out, ": %s", t->wait);
    if (t->holds_gil) {
        pb_print_puts(out, DOT);
        pb_print_style(out, PB_YELLOW);
        pb_print_puts(out, "holds the GIL");
        pb_print_style(out, PB_PLAIN);
    }
    if (t->collecting)
        pb_print_puts(out, DOT "collecting garbage");
    if (t->python && t->interpreter)
        pb_print_f(out, DOT "interpreter %lld", (long long)t->interpreter);
    if (!t->python)
        pb_print_puts(out, DOT "not a Python thread");
    if (t->torn) {
        pb_print_puts(out, DOT);
        pb_print_style(out, PB_RED);
        pb_print_puts(out, "torn");
        pb_print_style(out, PB_PLAIN);
    }
    pb_print_puts(out, "\n");
}

struct row {
    const char *func, *location;
};

static void print_locals(struct pb_print *out, const struct pb_frame *f, struct pb_arena *a)
{
    for (size_t i = 0; i < f->nlocals; i++) {
        const char *value = pb_text_clean(a, f->locals[i].value);
        size_t used = 10 + pb_text_width(f->locals[i].name);
        size_t width = out->width > 0 ? (size_t)out->width : VALUE_WIDTH;

        value = pb_text_end(a, value, width > used + 20 ? width - used : 20);
        pb_print_puts(out, f->locals[i].argument ? ARGUMENT : INDENT);
        pb_print_text(out, PB_CYAN, f->locals[i].name);
        pb_print_puts(out, " = ");
        pb_print_puts(out, value);
        pb_print_puts(out, "\n");
    }
}

/* Columns that the bytes [from, to) of a line take on the screen. */
static size_t columns(const char *line, int from, int to, struct pb_arena *a)
{
    return pb_text_width(pb_text_clean(a, pb_arena_printf(a, "%.*s", to - from, line + from)));
}

/* The executing line, and below it what of it is being executed, as far as that is told. */
static void print_source(struct pb_print *out, const struct pb_frame *f, struct pb_arena *a)
{
    int len, from, to;

    if (!f->source)
        return;
    pb_print_puts(out, INDENT);
    pb_print_text(out, PB_DIM, pb_text_clean(a, f->source));
    pb_print_puts(out, "\n");
    if (f->indentation < 0)
        return;
    len = (int)strlen(f->source);
    from = f->col_offset - f->indentation;
    to = f->end_lineno > f->lineno ? len : f->end_col_offset - f->indentation;
    if (f->col_offset < 0 || from < 0 || to <= from || to > len)
        return;
    pb_print_f(out, INDENT "%*s", (int)columns(f->source, 0, from, a), "");
    for (size_t i = columns(f->source, from, to, a); i > 0; i--)
        pb_print_puts(out, "^");
    pb_print_puts(out, "\n");
}

static void print_frame(struct pb_print *out, const struct pb_frame *f, const struct row *row,
                        size_t width, struct pb_arena *a)
{
    size_t func = pb_text_width(row->func), used = 5 + (func > width ? func : width) + 2;
    const char *where = row->location;

    if (out->width > 0 && used + pb_text_width(where) > (size_t)out->width &&
        (size_t)out->width > used + 16)
        where = pb_text_middle(a, where, (size_t)out->width - used);
    pb_print_f(out, "%3zu  ", f->depth);
    if (where[0]) {
        pb_print_cell(out, f->native ? PB_DIM : PB_PLAIN, row->func, width, false);
        pb_print_puts(out, "  ");
        pb_print_text(out, PB_DIM, where);
    } else {
        pb_print_text(out, f->native ? PB_DIM : PB_PLAIN, row->func);
    }
    pb_print_puts(out, "\n");
    print_source(out, f, a);
    print_locals(out, f, a);
}

/* Does the thread run code of several interpreters? */
static bool is_mixed(const struct pb_thread *t)
{
    for (size_t i = 0; i < t->nframes; i++)
        if (!t->frames[i].native && t->frames[i].interpreter != t->interpreter)
            return true;
    return false;
}

/* Says whose frames follow, where that changes. */
static void print_interpreter(struct pb_print *out, const struct pb_frame *f, int64_t *current)
{
    if (f->native || f->interpreter == *current)
        return;
    *current = f->interpreter;
    pb_print_puts(out, "     ");
    pb_print_style(out, PB_DIM);
    pb_print_f(out, "interpreter %lld", (long long)f->interpreter);
    pb_print_style(out, PB_PLAIN);
    pb_print_puts(out, "\n");
}

static void print_thread(struct pb_print *out, const struct pb_thread *t, bool verbose)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct row *rows = PB_NEW_N(&a, struct row, t->nframes + 1);
    bool mixed = is_mixed(t);
    int64_t interpreter = -1;
    size_t width = 0;

    print_header(out, t);
    for (size_t i = 0; i < t->nframes; i++) {
        const struct pb_frame *f = &t->frames[i];
        size_t w;

        rows[i].func =
            pb_text_clean(&a, f->native ? pb_stack_native_name(f, &a) : f->func);
        rows[i].location = pb_text_clean(&a, location(f, verbose, &a));
        w = pb_text_width(rows[i].func);
        if (w > width && rows[i].location[0])
            width = w < FUNC_WIDTH_MAX ? w : FUNC_WIDTH_MAX;
    }
    for (size_t i = 0; i < t->nframes; i++) {
        if (t->elided && i == t->cut_at)
            pb_print_f(out, "     … %zu frames left out …\n", t->elided);
        if (mixed)
            print_interpreter(out, &t->frames[i], &interpreter);
        print_frame(out, &t->frames[i], &rows[i], width, &a);
    }
    if (!t->nframes)
        pb_print_puts(out, "     (no frames)\n");
    if (t->note)
        pb_print_f(out, "     (%s)\n", t->note);
    pb_arena_finish(&a);
}

void pb_stack_text(struct pb_print *out, const struct pb_snapshot *s,
                   const struct pb_snapshot_opts *o, bool verbose)
{
    if (o->all || s->ns_pid != s->pid || s->pause_us > 0 || s->shutting_down) {
        pb_print_f(out, "Process %d", (int)s->pid);
        if (s->ns_pid != s->pid)
            pb_print_f(out, " (%d in its container)", (int)s->ns_pid);
        pb_print_f(out, DOT "Python %s%s", s->python, s->free_threaded ? "t" : "");
        if (o->all)
            pb_print_f(out, DOT "%zu thread%s", s->nthreads, pb_plural(s->nthreads, "s"));
        if (s->shutting_down)
            pb_print_puts(out, DOT "shutting down");
        if (s->pause_us > 0)
            pb_print_f(out, DOT "stopped for %.0f µs", s->pause_us);
        pb_print_puts(out, "\n\n");
    }
    pb_stack_text_threads(out, s, verbose);
}

void pb_stack_text_threads(struct pb_print *out, const struct pb_snapshot *s, bool verbose)
{
    for (size_t i = 0; i < s->nthreads; i++) {
        if (i)
            pb_print_puts(out, "\n");
        print_thread(out, &s->threads[i], verbose);
    }
}

void pb_stack_verbose(const struct pb_snapshot *s)
{
    fprintf(stderr, "probing: Python %s%s found by %s in %s\n", s->python,
            s->free_threaded ? "t" : "", s->how, s->module);
    for (size_t i = 0; i < s->nthreads; i++)
        if (s->threads[i].pause_us > 0)
            fprintf(stderr, "probing: thread %d was held for %.0f µs\n", (int)s->threads[i].tid,
                    s->threads[i].pause_us);
    fprintf(stderr, "probing: read in %.2f ms\n", s->total_us / 1000.0);
}

void pb_stack_again(struct pb_print *out)
{
    time_t now = time(NULL);
    struct tm tm;
    char text[32];

    localtime_r(&now, &tm);
    strftime(text, sizeof text, "%H:%M:%S", &tm);
    pb_print_f(out, "\n--- %s\n", text);
}
