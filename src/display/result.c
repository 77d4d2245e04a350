#include "display/result.h"

#include <string.h>

#include "host/text/json.h"
#include "display/value_text.h"
#include "display/widths.h"

#define SEPARATOR 3 /* " | " */
#define TITLE_MIN 10

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
        return pb_show_real(a, v->v.d);
    case PB_J_STRING:
        return pb_text_clean(a, c->time ? pb_show_time(a, v->s) : v->s);
    default:
        return pb_show_nested(a, v);
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

/* A number without its end is another number, and a time says nothing without it. */
static bool is_exact(const struct pb_result_column *c)
{
    return c->number || c->time;
}

/* cells NULL: the titles. Both are clean already, and there may be millions. */
static void table_line(struct pb_result *r, const char *const *cells)
{
    struct pb_arena a = PB_ARENA_INIT;

    for (size_t c = 0; c < r->ncolumns; c++) {
        const char *s = cells ? cells[c] : r->columns[c].title;
        size_t width = pb_text_width(s);

        if (width > r->columns[c].width && !(cells && is_exact(&r->columns[c])) &&
            (r->out->width || width > r->widest)) {
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

/* The widest columns give way, down to where all lines fit. */
static void measure(struct pb_result *r)
{
    size_t *widths = PB_NEW_N(&r->arena, size_t, 2 * r->ncolumns + 1), *mins = widths + r->ncolumns;

    for (size_t c = 0; c < r->ncolumns; c++) {
        size_t title = pb_text_width(r->columns[c].title), widest = 0;

        for (size_t i = 0; i < r->nrows; i++) {
            size_t w = pb_text_width(r->cells[i * r->ncolumns + c]);

            widest = w > widest ? w : widest;
        }
        widths[c] = widest > title ? widest : title;
        mins[c] = title < TITLE_MIN ? title : TITLE_MIN;
        if (is_exact(&r->columns[c]) && widest > mins[c])
            mins[c] = widest;
    }
    r->widest = pb_widths_fit(widths, mins, r->ncolumns, SEPARATOR, pb_print_width(r->out));
    for (size_t c = 0; c < r->ncolumns; c++)
        r->columns[c].width = widths[c];
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
        const char *unit = pb_json_str(&columns->items[i], "unit", NULL);
        const char *name = pb_json_str(&columns->items[i], "name", "");

        r->columns[i].title = pb_text_clean(
            &r->arena, unit ? pb_arena_printf(&r->arena, "%s [%s]", name, unit) : name);
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

static void add_row(struct pb_result *r, struct pb_arena *a, const struct pb_json *row)
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
        add_row(r, &a, &value);
    }
    pb_arena_finish(&a);
    return rc;
}
