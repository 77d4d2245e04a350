/*
 * internal.h - what the files of the archive share.
 *
 * Owns: see archive.h.
 * Threads: `index` guards the list and the numbers; the gate says who may change files.
 * Fails: as archive.h says.
 *
 * Lock order: gate, then index. Nothing that waits is done under index.
 */
#ifndef PB_NODE_ARCHIVE_INTERNAL_H
#define PB_NODE_ARCHIVE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "node/archive/archive.h"
#include "node/archive/fleet.h"
#include "node/archive/lake.h"
#include "node/discover/discover.h"

/*
 * Queries look (from begin to bound) and run (from begin to end). A file may appear while nobody
 * looks; one may go while nobody runs.
 */
struct pb_gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int looking, running;
    bool changing;
};

struct pb_archive {
    struct pb_archive_writer writer;
    struct pb_discover *discover;
    bool background;
    char host[PB_LAKE_HOST_MAX];
    char tag[PB_LAKE_HOST_MAX + 8]; /* how names of unfinished files end */
    int lock_fd;
    _Atomic int64_t delay_ns, keep_days, keep_bytes;

    pthread_mutex_t index;
    struct pb_lake lake;
    struct pb_archive_status status;
    struct pb_gate gate;

    struct pb_fleet fleet; /* where history goes, too; root "": nowhere */
    _Atomic int64_t lake_delay_ns, lake_merge_ns;
    struct pb_arena shared; /* a lake that is read: what is in it */
    struct pb_archive_table *tables;
    size_t ntables;

    pthread_t sealer, tidier, publisher;
    bool sealing, tidying, publishing; /* the threads run */
    pthread_mutex_t wake;
    pthread_cond_t woken;
    bool stopping; /* under wake */
    uint32_t look; /* sealer's: number of looks so far */
    _Atomic uint64_t hot_ns; /* when a ring last needed us at once */
    /* Tidier's: when the folder was last walked, and when to merge again after a failure. */
    uint64_t scanned_ns, merge_ns;
};

/* Waits until nobody looks, and keeps others from looking until pb_gate_close. */
void pb_gate_change(struct pb_gate *g);
/* As pb_gate_change, before files are removed: false when queries still run after ms. */
bool pb_gate_quiet(struct pb_gate *g, int ms);
void pb_gate_close(struct pb_gate *g);

/* How much to seal: what is due, what cannot wait, or everything that is there. */
enum pb_seal_urgency { PB_SEAL_DUE, PB_SEAL_URGENT, PB_SEAL_ALL };

enum { PB_SEAL_LAZY_NS = 250000000 }; /* from look to look when nothing happens */

/* One ring. Returns nanoseconds until the next look is due. Sealing thread. */
uint64_t pb_archive_seal(struct pb_archive *a, struct pb_store_ring *ring, bool alive,
                         enum pb_seal_urgency urgency);
/*
 * One look at all rings: seals what is due or, when `final`, everything of living processes.
 * Returns nanoseconds until the next look is due. Sealing thread.
 */
uint64_t pb_archive_look(struct pb_archive *a, const struct pb_stores *stores, bool final);
/* One round: footers, one merge, retention. True when there is more to do. Tidying thread. */
bool pb_archive_tidy(struct pb_archive *a);
/* Walks the folder and makes the list what is there. Opening, then the tidying thread. */
int pb_archive_rescan(struct pb_archive *a, struct pb_err *err);

/* Hands what is new to the lake. Publishing thread, or when that has ended. */
int pb_archive_publish(struct pb_archive *a, struct pb_err *err);
/* Publishes, then merges what waits in the lake. False when something went wrong. */
bool pb_archive_publish_round(struct pb_archive *a);
/* Sets or, with NULL, clears why the lake does not get what it should. */
void pb_archive_lake_reason(struct pb_archive *a, const struct pb_err *err);

bool pb_archive_stopping(struct pb_archive *a);
/* Sets or, with NULL, clears the reason that the status shows. */
void pb_archive_reason(struct pb_archive *a, const struct pb_err *err);
/* "<folder>/.<name><tag>": where a part is written before it is one. */
int pb_archive_temp(const struct pb_archive *a, const struct pb_series_id *s,
                    const struct pb_part *p, char *buf);
/* Gives a finished file its time and syncs it; reads its footer and its size into the part. */
int pb_archive_finish_file(const char *path, struct pb_part *p, bool sync, struct pb_err *err);
void pb_archive_sync_folder(const char *path);
/* The monotonic clock in ms from now, for a timed wait. */
struct timespec pb_archive_in(int ms);

#endif
