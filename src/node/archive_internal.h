/*
 * archive_internal.h - what the files of the archive share.
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

#include "node/archive.h"
#include "node/archive_lake.h"
#include "node/discover.h"

/* The engine, as far as the archive needs it; tests have one of their own. */
struct pb_archive_writer {
    int (*write)(void *arg, struct pb_store_ring *ring, uint64_t first, uint64_t last,
                 const char *path, uint64_t *ret_rows, struct pb_err *err);
    int (*merge)(void *arg, const char *const *paths, size_t n, const char *path,
                 struct pb_err *err);
    void *arg;
};

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

    pthread_t sealer, tidier;
    bool sealing, tidying; /* the threads run */
    pthread_mutex_t wake;
    pthread_cond_t woken;
    bool stopping; /* under wake */
    uint32_t look; /* sealer's: number of looks so far */
    _Atomic uint64_t hot_ns; /* when a ring last needed us at once */
    /* Tidier's: when the folder was last walked, and when to merge again after a failure. */
    uint64_t scanned_ns, merge_ns;
};

int pb_archive_open_with(struct pb_archive **ret, const struct pb_archive_writer *writer,
                         struct pb_discover *discover, const char *host, const char *data_dir,
                         bool background, struct pb_err *err);

/* Waits until nobody looks, and keeps others from looking until pb_gate_close. */
void pb_gate_change(struct pb_gate *g);
/* The same for removing: false when queries still run after ms. */
bool pb_gate_quiet(struct pb_gate *g, int ms);
void pb_gate_close(struct pb_gate *g);

/* How much to seal: what is due, what cannot wait, or everything that is there. */
enum pb_seal_hurry { PB_SEAL_DUE, PB_SEAL_URGENT, PB_SEAL_ALL };

enum { PB_SEAL_LAZY_NS = 250000000 }; /* from look to look when nothing happens */

/* One ring. Returns nanoseconds until the next look is due. Sealing thread. */
uint64_t pb_archive_seal(struct pb_archive *a, struct pb_store_ring *ring, bool alive,
                         enum pb_seal_hurry hurry);
/*
 * One look at all rings: seals what is due or, when `final`, everything of living processes.
 * Returns nanoseconds until the next look is due. Sealing thread.
 */
uint64_t pb_archive_look(struct pb_archive *a, const struct pb_stores *stores, bool final);
/* One round: footers, one merge, retention. True when there is more to do. Tidying thread. */
bool pb_archive_tidy(struct pb_archive *a);
/* Walks the folder and makes the list what is there. Opening, then the tidying thread. */
int pb_archive_rescan(struct pb_archive *a, struct pb_err *err);

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
