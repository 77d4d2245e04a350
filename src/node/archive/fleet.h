/*
 * fleet.h - the lake that the nodes of many machines share.
 *
 * Owns: names and folders of it; a node's batches until others may take them.
 * Threads: the archive's publishing one; reading from any.
 * Fails: with a reason; rows stay in the node's own history and are handed over later.
 * Not here: rows (sql/parquet/publish.c), the node's own history (lake.h).
 *
 *     <lake>/<table>/date=YYYY-MM-DD/hour=HH/part-<id>.parquet         what everybody reads
 *     <lake>/.waiting/<table>/batch-<id>/date=…/hour=…/rows-0.parquet  rows of one node
 *     <lake>/.waiting/<table>/open-<id>/batch-…                        being collected
 *     <lake>/.waiting/<table>/claim-<id>/batch-…                       being merged
 *
 * <id> is a time in ns and the tag of the node that made it. Each step is one rename, and a batch
 * only moves down this list:
 *   1. A node writes a batch under a name with a dot in front and renames it to batch-<id>.
 *   2. When the oldest batch has waited long enough, a node that sees it makes open-<its id> and
 *      renames batches into it: of two that want the same one, one gets it.
 *   3. It renames open-<id> to claim-<id>. What is in a claim never changes any more.
 *   4. For each hour in the claim it writes one file, of much more than one, and gives it the name
 *      part-<id> (part-<id>-1 …), unless that is there: then the claim goes. A reader sees a row
 *      when it has its place for good.
 * A claim that its node left is taken up by that node when it starts again, by others when
 * nothing has happened in it for FLEET_STALE_S; whoever comes second finds part-<id> there.
 *
 * A node notes what is in a batch before it writes it (published.h). Killed before it has noted
 * that the batch is there, it looks for the batch: in the folders above from the first to the last,
 * then for its id in the files, where it is the column _batch. As batches only move forward, one
 * that is nowhere was never there.
 */
#ifndef PB_NODE_ARCHIVE_FLEET_H
#define PB_NODE_ARCHIVE_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "node/archive/archive.h"
#include "node/archive/lake.h"

enum {
    PB_FLEET_TAG_MAX = PB_LAKE_HOST_MAX + 16,
    PB_FLEET_ID_MAX = PB_FLEET_TAG_MAX + 24,
    PB_FLEET_STALE_S = 600,
};

struct pb_fleet {
    char root[PB_LAKE_PATH_MAX / 4]; /* "" when there is no lake */
    char tag[PB_FLEET_TAG_MAX];      /* this node's tag: its host, and which of several on it */
};

void pb_fleet_init(struct pb_fleet *f, const char *root, const char *host, const char *data_dir);
/* A new id; buf holds PB_FLEET_ID_MAX. */
void pb_fleet_id(const struct pb_fleet *f, char *buf);
/* Was it made by this node? */
bool pb_fleet_is_ours(const struct pb_fleet *f, const char *id);
/* "<lake>/.waiting/<table>", with or without "/<kind>-<id>". */
void pb_fleet_waiting(const struct pb_fleet *f, const char *table, const char *kind,
                      const char *id, char buf[PB_LAKE_PATH_MAX]);

/* Folders of a lake are made by pb_lake_make, with mode 0777 less the umask. */
void pb_fleet_remove_tree(const char *path);
int pb_fleet_sync(const char *path, struct pb_err *err); /* a file or a folder */
/* Renames unless the new name is there: then PB_FAIL and errno EEXIST. */
int pb_fleet_rename(const char *from, const char *to, struct pb_err *err);

/* Names in a folder that begin with `prefix` (without it), sorted. In the arena. */
size_t pb_fleet_list(const char *path, const char *prefix, struct pb_arena *a,
                     const char *const **ret);

/* Merges what has waited long enough, of all tables, and what was left behind. */
int pb_fleet_gather(const struct pb_fleet *f, const struct pb_archive_writer *w,
                    int64_t wait_ns, struct pb_err *err);
/* Is a batch in the lake, in whatever state? */
int pb_fleet_has(const struct pb_fleet *f, const struct pb_archive_writer *w, const char *table,
                 const char *batch, bool *ret, struct pb_err *err);

/* The tables of a lake, for queries: those with files in [hours[0], hours[1]); 0, 0: all. */
int pb_fleet_scan(const char *root, const int64_t hours[2], struct pb_arena *a,
                  struct pb_archive_table **ret, size_t *ret_n, struct pb_err *err);
/* Does a folder look like a lake? */
bool pb_fleet_is_lake(const char *path);

#endif
