/*
 * scan_cells.h - cells as a ring has them into the engine's vectors.
 *
 * Owns: the dictionary and the texts of the ring at hand.
 * Threads: one each.
 * Fails: never; a text that is gone or makes no sense is NULL.
 * Not here: which rows (scan_rows.c).
 */
#ifndef PB_NODE_SQL_SCAN_SCAN_CELLS_H
#define PB_NODE_SQL_SCAN_SCAN_CELLS_H

#include "node/sql/scan/scan_dict.h"

/* Zeroed but for dict.duck: empty. */
struct pb_scan_cells {
    struct pb_scan_dict dict;
    struct pb_reader_window window;
    char *text;
};

void pb_scan_cells_finish(struct pb_scan_cells *w);
/*
 * n cells of a column, of the type that the ring has; those that look the same to both are in the
 * vector already. wanted: that of the table's column.
 */
void pb_scan_cells_put(struct pb_scan_cells *w, const struct pb_reader *r, enum pb_type type,
                       enum pb_type wanted, duckdb_vector v, void *cells, size_t n);

#endif
