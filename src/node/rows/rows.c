#include "node/rows/rows.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

enum { ROWS_FIRST = 64 };

void pb_rows_init(struct pb_rows *r, const struct pb_column_spec *columns, size_t ncolumns)
{
    *r = (struct pb_rows){.columns = columns, .ncolumns = ncolumns};
}

void pb_rows_finish(struct pb_rows *r)
{
    free(r->cells);
    pb_arena_finish(&r->arena);
    r->cells = NULL;
    r->nrows = r->cap = 0;
}

static void reserve(struct pb_rows *r, size_t nrows)
{
    size_t cap = r->cap ? r->cap : ROWS_FIRST;

    if (nrows <= r->cap)
        return;
    while (cap < nrows)
        cap *= 2;
    r->cells = pb_alloc_resize(r->cells, cap * r->ncolumns * sizeof *r->cells);
    r->cap = cap;
}

struct pb_row_cell *pb_rows_add(struct pb_rows *r)
{
    struct pb_row_cell *row;

    reserve(r, r->nrows + 1);
    row = r->cells + r->nrows++ * r->ncolumns;
    memset(row, 0, r->ncolumns * sizeof *row);
    for (size_t i = 0; i < r->ncolumns; i++)
        row[i].null = true;
    return row;
}

void pb_rows_int(struct pb_row_cell *row, size_t column, int64_t v)
{
    row[column].null = false;
    row[column].v.i = v;
}

void pb_rows_real(struct pb_row_cell *row, size_t column, double v)
{
    row[column].null = false;
    row[column].v.d = v;
}

void pb_rows_bool(struct pb_row_cell *row, size_t column, bool v)
{
    row[column].null = false;
    row[column].v.b = v;
}

void pb_rows_text(struct pb_rows *r, struct pb_row_cell *row, size_t column, const char *s)
{
    row[column].null = !s;
    row[column].v.s = s ? pb_arena_strdup(&r->arena, s) : NULL;
}
