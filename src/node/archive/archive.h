/*
 * archive.h - history: rows leave the rings for Parquet files before they are overwritten.
 *
 * Owns: the data folder while the node runs (one node per folder and host; a lock file says so),
 * and two threads: one seals, the other merges and removes, so that neither waits for the other.
 * Threads: its own; the calls below from any, open and close from one.
 * Fails: a full disk or a broken file stops sealing of that ring for a while, with a reason; rows
 * stay in the ring as long as they fit.
 * Not here: SQL text of views (sql/), rings (store/).
 *
 *     <data>/lake/<schema>.<table>/date=YYYY-MM-DD/host=H/process=<pid>-<start>/
 *         part-<ring>-<first row>-<last row>.parquet
 *
 * <ring> is the time the ring was made (created_ns), so that neither a second agent in the same
 * process nor a pid and start time that come again after a reboot are taken for the first.
 * What is sealed is said by the file names alone: of one ring all rows up to the highest
 * <last row> are in files, or lost. A file is written under a name that starts with a dot, synced,
 * and renamed. Merging small files writes the merged one first; a part whose rows lie within
 * another part's is stale, is never read, and is removed. A file's modification time is the time
 * of its last row.
 */
#ifndef PB_NODE_ARCHIVE_H
#define PB_NODE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/settings.h"
#include "host/text/arena.h"

struct pb_archive;
struct pb_discover;
struct pb_store_ring;

/* Rows [first, last] of a part of history. */
struct pb_batch_piece {
    const char *path, *process;
    uint64_t ring, first, last;
    int64_t last_ns; /* time of its last row, for tables without one */
};
/* What one node hands to the lake at a time, of one table. */
struct pb_batch {
    const char *id, *host;
    const struct pb_batch_piece *pieces;
    size_t npieces;
};

/* The engine, as far as the archive needs it; tests have one of their own. */
struct pb_archive_writer {
    int (*write)(void *arg, struct pb_store_ring *ring, uint64_t first, uint64_t last,
                 const char *path, uint64_t *ret_rows, struct pb_err *err);
    int (*merge)(void *arg, const char *const *paths, size_t n, const char *path,
                 struct pb_err *err);
    /* For the lake that machines share; both NULL where there is none. */
    int (*publish)(void *arg, const struct pb_batch *b, const char *folder, struct pb_err *err);
    int (*has_batch)(void *arg, const char *glob, const char *batch, bool *ret,
                     struct pb_err *err);
    void *arg;
    uint64_t part_bytes; /* size of a file of that lake, about; 0: default */
};

struct pb_archive_opts {
    struct pb_archive_writer writer;
    struct pb_discover *discover; /* NULL: no threads */
    const char *host, *data_dir;
    const char *lake; /* folder that machines share (fleet.h), or NULL */
    /* Hours of the lake that are read, since 1970 in UTC: [0] up to, not with, [1]; 0, 0: all. */
    int64_t hours[2];
    bool background; /* false with a lake: it is read, and there is no data_dir */
};

/*
 * Recovers from a crash; starts the threads only if `background`. A folder that is not there is
 * made when background, else the archive is simply empty. Writer and discover are used by the
 * threads from now until pb_archive_close: open it after them, close it before them.
 */
int pb_archive_open(struct pb_archive **ret, const struct pb_archive_opts *o, struct pb_err *err);
void pb_archive_close(struct pb_archive *a); /* seals what is left when background; NULL is fine */
/* Takes retention.* and history.delay over; at opening they come from the environment. */
void pb_archive_configure(struct pb_archive *a, const struct pb_settings *s);

/*
 * For discover, when a ring is first opened and before anybody else sees it: sets ring->sealed to
 * what the files say. Takes no lock that a query holds. Without it rows would show twice.
 */
void pb_archive_adopt(struct pb_archive *a, struct pb_store_ring *ring);

/*
 * A query sees rings and files as of one instant: from begin to bound no file appears or goes and
 * no ring's `sealed` moves; until end no file is removed. Each is called once and in this order,
 * also when binding fails. Do not hold a place between begin and bound longer than binding takes.
 */
void pb_archive_begin(struct pb_archive *a);
void pb_archive_bound(struct pb_archive *a);
void pb_archive_end(struct pb_archive *a);

/* One table that has files. */
struct pb_archive_table {
    const char *name;      /* "python.memory" */
    /* What read_parquet takes, lines if several; never matches a file that is being written. */
    const char *glob;
    bool fleet;            /* files of many machines: host, process are columns in them */
    bool mixed;            /* its files do not all have the same columns, or nobody looked yet */
    uint64_t files, bytes, rows;
    uint64_t changes;      /* differs when the set of columns or `mixed` does */
};
/* By name, in the arena. For a consistent view between begin and bound. */
size_t pb_archive_tables(struct pb_archive *a, struct pb_arena *arena,
                         struct pb_archive_table **ret);
/* Processes that have files: "<pid>-<start>" with the time of their last row. In the arena. */
struct pb_archive_process {
    const char *id, *host;
    int64_t last_ns;
};
size_t pb_archive_processes(struct pb_archive *a, struct pb_arena *arena,
                            struct pb_archive_process **ret);

/* For probing.agents and probing.cost. */
struct pb_archive_status {
    uint64_t sealed_rows, sealed_files; /* by this node */
    uint64_t bytes;                     /* bytes of all files */
    uint64_t lost_rows; /* overwritten, or never finished, while this node looked */
    char reason[160]; /* "" when all is well */
    char lake[160], lake_reason[160]; /* the shared folder, or ""; the same about it */
};
void pb_archive_status(struct pb_archive *a, struct pb_archive_status *ret);

#endif
