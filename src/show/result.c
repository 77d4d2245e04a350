#include "show/result.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/json.h"

#define SEPARATOR 3 /* " | " */
#define TITLE_MIN 10
#define DIGITS_MAX 15
#define DIGITS_SHOWN 4

struct pb_result_column {
    const char *title;
    bool time, number;
    size_t width;
};

void pb_result_init(struct pb_result *r, struct pb_print *out, bool markdown)
{
    *r = (struct pb_result){.out = out, .markdown = markdown};
}

void pb_result_finish(struct pb_result *r)
{
    pb_arena_finish(&r->arena);
    *r = (struct pb_result){0};
}

/*
 * Four digits are what people compare; JSON, CSV and Parquet have all of them. What is before the
 * point stays whole: a number of seconds since 1970 is of no use otherwise.
 */
static const char *real_text(struct pb_arena *a, double d)
{
    char text[40];
    const char *e;
    int power, behind;

    snprintf(text, sizeof text, "%.*e", DIGITS_SHOWN - 1, d);
    e = strchr(text, 'e');
    power = e ? (int)strtol(e + 1, NULL, 10) : 0;
    if (!e || power < -5 || power >= DIGITS_MAX) {
        snprintf(text, sizeof text, "%.*g", DIGITS_SHOWN, d);
        return pb_arena_strdup(a, text);
    }
    /* One digit behind the point tells it from a whole number. */
    behind = DIGITS_SHOWN - 1 - power;
    if (behind < 1)
        behind = d == (double)(int64_t)d;
    snprintf(text, sizeof text, "%.*f", behind, d);
    for (size_t len = strlen(text); behind > 0 && text[len - 1] == '0' && text[len - 2] != '.';
         len--)
        text[len - 1] = '\0';
    return pb_arena_strdup(a, text);
}

static void write_value(struct pb_buf *b, struct pb_arena *a, const struct pb_json *v)
{
    switch (v->type) {
    case PB_J_REAL:
        pb_buf_puts(b, real_text(a, v->v.d));
        break;
    case PB_J_NULL:
        pb_buf_puts(b, "null");
        break;
    case PB_J_BOOL:
        pb_json_bool(b, v->v.b);
        break;
    case PB_J_STRING:
        pb_json_string(b, v->s);
        break;
    case PB_J_ARRAY:
    case PB_J_OBJECT:
        pb_buf_putc(b, v->type == PB_J_ARRAY ? '[' : '{');
        for (size_t i = 0; i < v->n; i++) {
            pb_buf_puts(b, i ? ", " : "");
            if (v->type == PB_J_OBJECT) {
                pb_json_string(b, v->items[i].key);
                pb_buf_puts(b, ": ");
            }
            write_value(b, a, &v->items[i]);
        }
        pb_buf_putc(b, v->type == PB_J_ARRAY ? ']' : '}');
        break;
    default:
        pb_buf_add(b, v->s, v->len);
    }
}

static const char *nested_text(struct pb_arena *a, const struct pb_json *v)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *text;

    write_value(&b, a, v);
    text = pb_text_clean(a, b.data);
    pb_buf_finish(&b);
    return text;
}

/* "2026-01-02T03:04:05.120000Z" as people write it: a blank, no zeros at the end. */
static const char *time_text(struct pb_arena *a, const char *iso)
{
    char *text = pb_arena_strdup(a, iso);
    char *t = strchr(text, 'T'), *dot = strchr(text, '.'), *last;
    size_t digits;

    if (t)
        *t = ' ';
    if (!dot)
        return text;
    digits = strspn(dot + 1, "0123456789");
    last = dot + digits;
    while (last > dot && *last == '0')
        last--;
    last += last > dot;
    memmove(last, dot + 1 + digits, strlen(dot + 1 + digits) + 1);
    return text;
}

static const char *cell_text(struct pb_arena *a, const struct pb_result_column *c,
                             const struct pb_json *v)
{
    switch (v->type) {
    case PB_J_NULL:
        return "";
    case PB_J_BOOL:
        return v->v.b ? "true" : "false";
    case PB_J_INT:
        return pb_arena_strndup(a, v->s, v->len);
    case PB_J_REAL:
        return real_text(a, v->v.d);
    case PB_J_STRING:
        return pb_text_clean(a, c->time ? time_text(a, v->s) : v->s);
    default:
        return nested_text(a, v);
    }
}

static void escape_bars(struct pb_buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '|')
            pb_buf_putc(b, '\\');
        pb_buf_putc(b, *s);
    }
}

static void markdown_line(struct pb_result *r, const char *const *cells)
{
    struct pb_buf *b = &r->out->buf;

    pb_buf_putc(b, '|');
    for (size_t c = 0; c < r->ncolumns; c++) {
        pb_buf_putc(b, ' ');
        escape_bars(b, cells ? cells[c] : r->columns[c].title);
        pb_buf_puts(b, " |");
    }
    pb_buf_putc(b, '\n');
}

static void markdown_head(struct pb_result *r)
{
    markdown_line(r, NULL);
    pb_print_puts(r->out, "|");
    for (size_t c = 0; c < r->ncolumns; c++)
        pb_print_puts(r->out, r->columns[c].number ? "---:|" : "---|");
    pb_print_puts(r->out, "\n");
}

static const char *shorten(struct pb_arena *a, const char *s, size_t width)
{
    /* Of a path its end says most. */
    return strchr(s, '/') && !strchr(s, ' ') ? pb_text_middle(a, s, width)
                                             : pb_text_end(a, s, width);
}

/* cells NULL: the titles. Both are clean already, and there may be millions. */
static void table_line(struct pb_result *r, const char *const *cells)
{
    struct pb_arena a = PB_ARENA_INIT;

    for (size_t c = 0; c < r->ncolumns; c++) {
        const char *s = cells ? cells[c] : r->columns[c].title;
        size_t width = pb_text_width(s);

        if (width > r->columns[c].width && (r->out->width || width > r->widest)) {
            s = shorten(&a, s, r->columns[c].width);
            width = pb_text_width(s);
        }
        if (!cells)
            pb_print_style(r->out, PB_BOLD);
        pb_print_puts(r->out, s);
        if (!cells)
            pb_print_style(r->out, PB_PLAIN);
        if (c + 1 == r->ncolumns)
            break;
        for (; width < r->columns[c].width; width++)
            pb_buf_putc(&r->out->buf, ' ');
        pb_print_puts(r->out, " | ");
    }
    while (r->out->buf.len && r->out->buf.data[r->out->buf.len - 1] == ' ')
        r->out->buf.data[--r->out->buf.len] = '\0'; /* no blanks at the end of a line */
    pb_print_puts(r->out, "\n");
    pb_arena_finish(&a);
}

static void table_head(struct pb_result *r)
{
    table_line(r, NULL);
    pb_print_style(r->out, PB_DIM);
    for (size_t c = 0; c < r->ncolumns; c++) {
        size_t dashes = r->columns[c].width + (c > 0) + (c + 1 < r->ncolumns);

        pb_print_puts(r->out, c ? "|" : "");
        while (dashes--)
            pb_print_puts(r->out, "-");
    }
    pb_print_style(r->out, PB_PLAIN);
    pb_print_puts(r->out, "\n");
}

static size_t capped(const struct pb_result_column *c, size_t cap)
{
    size_t title = pb_text_width(c->title);
    size_t least = title < TITLE_MIN ? title : TITLE_MIN;

    cap = cap > least ? cap : least;
    return c->width < cap ? c->width : cap;
}

/* The widest columns give way, down to where all lines fit. */
static void fit(struct pb_result *r)
{
    size_t limit = pb_print_width(r->out), low = 1, high = 1;
    size_t gaps = (r->ncolumns - 1) * SEPARATOR, whole = gaps;

    for (size_t c = 0; c < r->ncolumns; c++) {
        high = r->columns[c].width > high ? r->columns[c].width : high;
        whole += r->columns[c].width;
    }
    r->widest = limit;
    if (whole <= limit)
        return;
    while (low < high) {
        size_t cap = (low + high + 1) / 2, total = gaps;

        for (size_t c = 0; c < r->ncolumns; c++)
            total += capped(&r->columns[c], cap);
        if (total <= limit)
            low = cap;
        else
            high = cap - 1;
    }
    r->widest = low;
    for (size_t c = 0; c < r->ncolumns; c++)
        r->columns[c].width = capped(&r->columns[c], low);
}

static void measure(struct pb_result *r)
{
    for (size_t c = 0; c < r->ncolumns; c++) {
        size_t width = pb_text_width(r->columns[c].title);

        for (size_t i = 0; i < r->nrows; i++) {
            size_t w = pb_text_width(r->cells[i * r->ncolumns + c]);

            width = w > width ? w : width;
        }
        r->columns[c].width = width;
    }
    fit(r);
}

static void print_row(struct pb_result *r, const char *const *cells)
{
    if (r->markdown)
        markdown_line(r, cells);
    else
        table_line(r, cells);
}

static void print_held(struct pb_result *r)
{
    if (r->results++)
        pb_print_puts(r->out, "\n");
    if (r->markdown) {
        markdown_head(r);
    } else {
        measure(r);
        table_head(r);
    }
    for (size_t i = 0; i < r->nrows; i++)
        print_row(r, &r->cells[i * r->ncolumns]);
    r->nrows = 0;
}

void pb_result_end(struct pb_result *r)
{
    if (r->ncolumns && !r->streaming)
        print_held(r);
    pb_arena_finish(&r->arena);
    r->columns = NULL;
    r->cells = NULL;
    r->ncolumns = r->nrows = r->cap = 0;
    r->streaming = r->plan = false;
}

static bool is_number(const char *type)
{
    static const char *const types[] = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
                                        "U",       "FLOAT",    "DOUBLE",  "DECIMAL"};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(type, types[i], strlen(types[i])) == 0)
            return strcmp(type, "UUID") != 0 && strncmp(type, "UNION", 5) != 0;
    return false;
}

static int begin(struct pb_result *r, const struct pb_json *head, struct pb_err *err)
{
    const struct pb_json *columns = pb_json_get(head, "columns");

    if (!columns || columns->type != PB_J_ARRAY)
        return pb_err_set(err, PB_FAIL, "the node speaks another language");
    r->columns = PB_NEW_N(&r->arena, struct pb_result_column, columns->n + 1);
    r->ncolumns = columns->n;
    for (size_t i = 0; i < columns->n; i++) {
        const char *type = pb_json_str(&columns->items[i], "type", "");

        r->columns[i].title =
            pb_text_clean(&r->arena, pb_json_str(&columns->items[i], "name", ""));
        r->columns[i].time = strncmp(type, "TIMESTAMP", 9) == 0;
        r->columns[i].number = is_number(type);
    }
    r->plan = !r->markdown && r->ncolumns == 2 && strcmp(r->columns[0].title, "explain_key") == 0 &&
              strcmp(r->columns[1].title, "explain_value") == 0;
    return 0;
}

static void print_plan(struct pb_result *r, struct pb_arena *a, const struct pb_json *row)
{
    const char *s = row->items[1].type == PB_J_STRING ? row->items[1].s : "";

    if (r->results++)
        pb_print_puts(r->out, "\n");
    for (size_t n = strcspn(s, "\n"); *s; s += n + (s[n] == '\n'), n = strcspn(s, "\n"))
        pb_print_f(r->out, "%s\n", pb_text_clean(a, pb_arena_strndup(a, s, n)));
    r->streaming = true;
}

static void take_row(struct pb_result *r, struct pb_arena *a, const struct pb_json *row)
{
    const char **cells;

    if (r->plan) {
        print_plan(r, a, row);
        return;
    }
    if (r->streaming) {
        cells = PB_NEW_N(a, const char *, r->ncolumns + 1);
        for (size_t c = 0; c < r->ncolumns; c++)
            cells[c] = cell_text(a, &r->columns[c], &row->items[c]);
        print_row(r, cells);
        return;
    }
    if (r->nrows == r->cap) {
        size_t size = sizeof *r->cells * r->ncolumns;
        size_t more = r->cap ? r->cap * 2 : 64;

        r->cells = pb_arena_grow(&r->arena, r->cells, r->cap * size, more * size);
        r->cap = more;
    }
    cells = &r->cells[r->nrows++ * r->ncolumns];
    for (size_t c = 0; c < r->ncolumns; c++)
        cells[c] = cell_text(&r->arena, &r->columns[c], &row->items[c]);
    if (r->nrows == PB_RESULT_HELD) {
        print_held(r);
        r->streaming = true;
    }
}

int pb_result_line(struct pb_result *r, const char *line, size_t len, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json value;
    int rc = pb_json_parse(&a, line, len, &value, NULL);

    if (rc < 0) {
        pb_err_set(err, PB_FAIL, "the node speaks another language");
    } else if (value.type == PB_J_OBJECT) {
        pb_result_end(r);
        rc = begin(r, &value, err);
    } else if (value.type != PB_J_ARRAY || value.n != r->ncolumns) {
        rc = pb_err_set(err, PB_FAIL, "the node speaks another language");
    } else if (r->ncolumns) {
        take_row(r, &a, &value);
    }
    pb_arena_finish(&a);
    return rc;
}
