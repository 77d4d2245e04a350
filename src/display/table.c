#include "display/table.h"

#include <string.h>

#include "display/widths.h"

#define GAP 2
#define SHRINK_MIN 12

static const char *cell(const struct pb_table *t, size_t row, size_t column)
{
    const char *s = t->cells[row * t->ncolumns + column];

    return s ? s : "";
}

static void measure(const struct pb_table *t, size_t *widths)
{
    struct pb_arena a = PB_ARENA_INIT;

    for (size_t c = 0; c < t->ncolumns; c++) {
        widths[c] = pb_text_width(t->columns[c].title);
        if (widths[c] < t->columns[c].min_width)
            widths[c] = t->columns[c].min_width;
        for (size_t r = 0; r < t->nrows; r++) {
            size_t w = pb_text_width(pb_text_clean(&a, cell(t, r, c)));

            widths[c] = w > widths[c] ? w : widths[c];
        }
    }
    pb_arena_finish(&a);
}

static void print_line(struct pb_print *out, const struct pb_table *t, const size_t *widths,
                       size_t row, bool header)
{
    struct pb_arena a = PB_ARENA_INIT;

    for (size_t c = 0; c < t->ncolumns; c++) {
        const struct pb_column *column = &t->columns[c];
        bool last = c + 1 == t->ncolumns;
        const char *s = header ? column->title : pb_text_clean(&a, cell(t, row, c));

        if (column->shrinks)
            s = pb_text_end(&a, s, widths[c]);
        /* No blanks at the end of a line. */
        pb_print_cell(out, header ? PB_DIM : PB_PLAIN, s, last && !column->right ? 0 : widths[c],
                      column->right);
        pb_print_puts(out, last ? "\n" : "  ");
    }
    pb_arena_finish(&a);
}

void pb_table_print(struct pb_print *out, const struct pb_table *t)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t *widths = PB_NEW_N(&a, size_t, 2 * t->ncolumns + 1), *mins = widths + t->ncolumns;

    measure(t, widths);
    for (size_t c = 0; c < t->ncolumns; c++)
        mins[c] = t->columns[c].shrinks && widths[c] > SHRINK_MIN ? SHRINK_MIN : widths[c];
    pb_widths_fit(widths, mins, t->ncolumns, GAP, pb_print_width(out));
    print_line(out, t, widths, 0, true);
    for (size_t r = 0; r < t->nrows; r++)
        print_line(out, t, widths, r, false);
    pb_arena_finish(&a);
}

static void csv_cell(struct pb_buf *out, const char *s)
{
    if (!strpbrk(s, ",\"\r\n")) {
        pb_buf_puts(out, s);
        return;
    }
    pb_buf_putc(out, '"');
    for (; *s; s++) {
        if (*s == '"')
            pb_buf_putc(out, '"');
        pb_buf_putc(out, *s);
    }
    pb_buf_putc(out, '"');
}

void pb_table_csv(struct pb_buf *out, const struct pb_table *t)
{
    for (size_t r = 0; r <= t->nrows; r++) {
        for (size_t c = 0; c < t->ncolumns; c++) {
            if (c)
                pb_buf_putc(out, ',');
            csv_cell(out, r ? cell(t, r - 1, c) : t->columns[c].title);
        }
        pb_buf_putc(out, '\n');
    }
}

void pb_table_print_csv(struct pb_print *out, const struct pb_table *t)
{
    struct pb_text_tail tail = {.len = 0};
    struct pb_buf text = PB_BUF_INIT;

    if (!out->is_terminal) {
        pb_table_csv(&out->buf, t);
        return;
    }
    pb_table_csv(&text, t);
    pb_text_stream(&tail, text.data, text.len, &out->buf);
    pb_buf_finish(&text);
}
