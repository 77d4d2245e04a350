/*
 * python.heap - Python objects by type, counted from outside, now.
 */
#include "node/tables/read/heap.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(type, NAME, "", "class, with the classes around it: Outer.Inner")                            \
    X(module, NAME, "", "module that it is defined in")                                            \
    X(count, INT, "", "objects of exactly this class")                                             \
    X(bytes, INT, "B", "size of these objects, as sys.getsizeof() tells")                          \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_heap = {
    PB_TABLE_SPEC("python.heap", "Python objects by type, read from outside without a stop, now"),
    .fill = fill,
};

static void add_types(struct pb_node *n, const struct pb_live_process *p, const struct pb_heap *h,
                      struct pb_rows *rows)
{
    for (size_t i = 0; i < h->ntypes; i++) {
        struct pb_row_cell *row = pb_rows_add(rows);

        pb_rows_text(rows, row, AT_type, h->types[i].type);
        pb_rows_text(rows, row, AT_module, h->types[i].module);
        pb_rows_int(row, AT_count, (int64_t)h->types[i].count);
        pb_rows_int(row, AT_bytes, (int64_t)h->types[i].bytes);
        pb_live_common(rows, row, n->host, p->pid, p->rank);
    }
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    (void)wanted;
    return pb_live_heap(n, scope, "python.heap", 0, rows, add_types, err);
}
