/*
 * published.h - which rows of a table this node has handed to the lake.
 *
 * Owns: a small file for each table in the node's data folder.
 * Threads: the archive's publishing one.
 * Fails: with a reason. A file that makes no sense counts as none: then all rows are handed over.
 * Not here: the rows.
 *
 *     lake <folder>                             another one: nothing was handed over yet
 *     batch <id>                                one is being written, or may be there already
 *     series <process> <ring> <next> <end>      rows before next are there; before end: with the
 *                                               batch
 */
#ifndef PB_NODE_ARCHIVE_PUBLISHED_H
#define PB_NODE_ARCHIVE_PUBLISHED_H

#include "node/archive/fleet.h"

struct pb_published_series {
    char process[PB_PROCESS_ID_MAX];
    uint64_t ring, next, end;
};

struct pb_published {
    char batch[PB_FLEET_ID_MAX]; /* "": none is under way */
    struct pb_published_series *v;
    size_t n, cap;
};

/* Buffers hold PB_LAKE_PATH_MAX; data_dir without "/lake". */
void pb_published_path(char *buf, const char *data_dir, const char *host, const char *table);
void pb_published_load(struct pb_published *p, const char *path, const char *lake);
int pb_published_save(const struct pb_published *p, const char *path, const char *lake,
                      struct pb_err *err);
void pb_published_finish(struct pb_published *p);
/* Made when it is not there. Valid until the next call. */
struct pb_published_series *pb_published_find(struct pb_published *p, const char *process,
                                              uint64_t ring);
/* The batch is in the lake, or (false) never will be. */
void pb_published_settle(struct pb_published *p, bool there);

#endif
