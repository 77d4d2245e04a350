/*
 * scan_dict.h - a ring's dictionary as a vector of the engine.
 *
 * Owns: the vector and the way from a NAME cell to its place in it.
 * Threads: one each.
 * Fails: never; a name that makes no sense is NULL.
 * Not here: reading cells (scan_ring.c).
 */
#ifndef PB_NODE_SQL_SCAN_SCAN_DICT_H
#define PB_NODE_SQL_SCAN_SCAN_DICT_H

#include <stddef.h>
#include <stdint.h>

#include "node/sql/duck.h"
#include "store/reader.h"

struct pb_scan_dict {
    const struct pb_duck *duck;
    const struct pb_reader *reader; /* whose dictionary it is; NULL at first */
    duckdb_vector vector;     /* place 0 is NULL */
    uint32_t *slots;                /* by the number in a NAME cell; 0: unknown */
    size_t nslots;
    uint32_t used;
    uint64_t bytes; /* size of the dictionary when it was read */
};

void pb_scan_dict_finish(struct pb_scan_dict *d);
/* Makes `out` a view of the dictionary: row i is the name in cells[i]. */
void pb_scan_dict_put(struct pb_scan_dict *d, const struct pb_reader *r, const uint32_t *cells,
                      size_t n, duckdb_vector out);

#endif
