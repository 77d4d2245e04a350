/*
 * lake.h - the list of Parquet files, their names, and the folder they lie in.
 *
 * Owns: the list; files belong to whoever holds the folder's lock.
 * Threads: none of its own; the archive calls under its index lock, except for the functions that
 * say they touch the disk, which need no lock.
 * Fails: a name or folder that makes no sense is not in the list.
 * Not here: when to seal or merge (seal.c, tidy.c).
 */
#ifndef PB_NODE_ARCHIVE_LAKE_H
#define PB_NODE_ARCHIVE_LAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "node/discover/scope.h"
#include "store/format.h"

enum {
    PB_LAKE_HOST_MAX = 64,
    PB_LAKE_PATH_MAX = 4096,
    PB_LAKE_NAME_MAX = 128, /* a file's name: "part-<ring>-<first>-<last>.parquet" */
};

struct pb_part {
    uint64_t first, last; /* rows, both in it */
    int32_t day;          /* since 1970: its date folder */
    uint32_t seen;        /* by which scan */
    uint64_t bytes;
    uint64_t rows;    /* from its footer; before that, as many as the name allows */
    uint64_t columns; /* hash of its schema; 0: nobody looked yet */
    int64_t last_ns;  /* time of the last row */
};

/* What the sealing thread remembers of a ring between two looks. Its own. */
struct pb_sealing {
    uint64_t since_ns; /* when rows that are not sealed were first seen; 0: there are none */
    uint64_t retry_ns; /* not before, after a failure */
    uint64_t wait_ns;  /* what the last failure cost */
    uint64_t stuck, stuck_ns; /* a row whose writer is at it, and since when that is known */
    uint64_t skipped;         /* rows passed over that never came */
    uint64_t heap_at;         /* heap position at the last seal */
    uint64_t next_at, look_ns; /* row count at the last look, and when that was */
    double pace;               /* rows a second since the look before */
    uint32_t look;             /* number of the last look */
};

/* A ring, as folders and file names tell it from others. */
struct pb_series_id {
    char table[PB_RING_NAME];
    char host[PB_LAKE_HOST_MAX];
    char process[PB_PROCESS_ID_MAX];
    uint64_t ring;
};

/* The files of one ring. */
struct pb_series {
    struct pb_series_id id; /* never changes */
    struct pb_part *parts; /* by first row */
    size_t nparts, cap;
    bool ours; /* written by this node, or on this host: may be merged */
    struct pb_sealing sealing;
};

struct pb_lake {
    char root[PB_LAKE_PATH_MAX]; /* "<data>/lake" */
    struct pb_series **series;   /* by table, process, host, ring */
    size_t nseries, cap;
    uint32_t scan;
    uint64_t bytes; /* bytes of all parts */
};

void pb_lake_finish(struct pb_lake *l);

/* The series, or NULL; pb_lake_series makes it. Pointers stay valid. */
struct pb_series *pb_lake_find(struct pb_lake *l, const struct pb_series_id *id);
struct pb_series *pb_lake_series(struct pb_lake *l, const struct pb_series_id *id);
void pb_series_name(struct pb_series_id *id, const char *table, const char *host,
                    const char *process, uint64_t ring);
/* Number behind the last sealed row. */
uint64_t pb_series_sealed(const struct pb_series *s);
void pb_lake_add(struct pb_lake *l, struct pb_series *s, const struct pb_part *part);
/* Forgets parts[at]; the file is the caller's. */
void pb_lake_drop(struct pb_lake *l, struct pb_series *s, size_t at);
/* Index of the part with these rows, or -1. */
long pb_series_part(const struct pb_series *s, uint64_t first, uint64_t last);
/* Forgets series that have neither files nor a true keep(series). */
void pb_lake_prune(struct pb_lake *l, bool (*keep)(const struct pb_series *s, void *arg),
                   void *arg);

/* Names. Buffers: PB_LAKE_PATH_MAX for paths, PB_LAKE_NAME_MAX for names. */
bool pb_lake_is_table(const char *name);
/* A host fit for a path: what is not a letter, digit, '.', '-', '_' becomes '_'. */
void pb_lake_host(char buf[PB_LAKE_HOST_MAX], const char *host);
void pb_lake_date(char buf[16], int32_t day);
void pb_part_name(char *buf, const struct pb_series_id *s, const struct pb_part *p);
bool pb_part_parse(const char *name, uint64_t *ret_ring, uint64_t *ret_first,
                   uint64_t *ret_last);
/* The folder of a part, and the part. -1 when the path is too long. */
int pb_part_folder(const struct pb_lake *l, const struct pb_series_id *s, int32_t day, char *buf);
int pb_part_path(const struct pb_lake *l, const struct pb_series_id *s, const struct pb_part *p,
                 char *buf);

/* One file as a scan found it. */
struct pb_found {
    struct pb_series_id key;
    struct pb_part part;
};

struct pb_finds {
    struct pb_found *found;
    size_t n, cap;
};

/*
 * Touches the disk: every part below root. Files that a writer of this tag left unfinished
 * (".…<tag>") are removed when tag is not NULL. A root that is not there has no files.
 */
int pb_lake_scan(const char *root, const char *tag, struct pb_finds *ret, struct pb_err *err);
void pb_finds_finish(struct pb_finds *f);
/*
 * Makes the list what the scan found. Parts whose rows lie within another's are left out of the
 * list and put into *ret_stale (finish it as well); they still have to be removed.
 */
void pb_lake_replace(struct pb_lake *l, const struct pb_finds *f, struct pb_finds *ret_stale);

/* Touches the disk: removes a file, then its folders as far as they are empty. */
void pb_lake_remove(const struct pb_lake *l, const struct pb_series_id *s,
                    const struct pb_part *p);
/* Touches the disk: mkdir -p; mode 0700: for this user alone. */
int pb_lake_make(const char *path, mode_t mode, struct pb_err *err);

#endif
