/*
 * scan.h - a scan over rings, from binding (scan_ring.c) to rows (scan_rows.c).
 *
 * Owns: what is bound belongs to the engine's bind data; it points to rings that the task's stores
 * keep open.
 * Threads: what is bound is const; each thread of the scan has a worker of its own.
 * Fails: never; a ring that does not fit is left out with a notice.
 * Not here: reading a ring (store/reader.h).
 */
#ifndef PB_NODE_SQL_SCAN_SCAN_H
#define PB_NODE_SQL_SCAN_SCAN_H

#include "node/sql/internal.h"

/* Where a column comes from: a number of the ring's, or one of these. */
enum {
    PB_SCAN_NOWHERE = -1,
    PB_SCAN_HOST = -2,
    PB_SCAN_PID = -3,
    PB_SCAN_RANK = -4,
    PB_SCAN_ROW = -5,
};

struct pb_scan_source {
    const struct pb_store_ring *ring;
    uint64_t first, next;
    int pid_at, time_at; /* in a shared ring whose rows are filtered by scope; else -1 */
    int *columns;        /* for each column of the table */
};

struct pb_scan_bound {
    struct pb_sql_task *task;
    struct pb_scan_source *sources;
    size_t nsources;
    enum pb_type *types;
    size_t ncolumns;
};

/*
 * A scan is made on one thread and read on others. The engine sees to their order; these say so in
 * C's own terms: after a change, and before what others have changed is read.
 */
void pb_scan_release(void);
void pb_scan_acquire(void);

void pb_scan_init(duckdb_init_info info);
void pb_scan_local_init(duckdb_init_info info);
void pb_scan_rows(duckdb_function_info info, duckdb_data_chunk output);

#endif
