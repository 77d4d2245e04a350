/*
 * discover.h - the stores on this machine, of living processes and of dead ones.
 *
 * Owns: every open ring. A snapshot is const, counted, and keeps its rings open.
 * Threads: any; pb_discover_snapshot is cheap enough for every query.
 * Fails: a folder or ring that makes no sense is left out with a reason (probing.agents,
 * probing.tables show it).
 * Not here: writing rings (store/writer.h), their history (archive.h).
 *
 * Looked at: <root>/probing-<uid>/ for each of pb_home_roots, for this user (root: every
 * user's); the same below /proc/PID/root of processes in another mount namespace; or one folder
 * that the user named (--store DIR: a user's folder or one process's, copied, under any name).
 */
#ifndef PB_NODE_DISCOVER_H
#define PB_NODE_DISCOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "node/discover/scope.h"
#include "store/reader.h"

struct pb_ring_spec;
struct pb_store;

struct pb_store_ring {
    struct pb_reader reader;
    const struct pb_store *store; /* whose it is: as first seen, without rings and status */
    char file[PB_RING_NAME + 24]; /* in the store's folder */
    dev_t device;
    ino_t inode;
    _Atomic int64_t rank;    /* the process's rank; -1 until it is known, which may be later */
    _Atomic uint64_t sealed; /* rows with a lower number are in the archive; see archive.h */
};

/* meta: key=value lines the agent writes once. status: the same, rewritten at each change. */
struct pb_store {
    char path[256];
    struct pb_scope_process process;
    pid_t ns_pid; /* pid in the process's own numbers */
    uid_t uid;
    bool foreign; /* another user's than ours: what it says about anybody else does not count */
    char host[64];
    int64_t rank, world_size, local_rank; /* -1: unknown */
    char *meta, *status; /* whole texts, terminated; "" when there is none */
    char *end;           /* text of the file that says how it ended; "" when there is none */
    char *troubles;      /* lines "<file>: what is wrong with it", or "" */
    struct pb_store_ring **rings; /* by file name */
    size_t nrings;
};

struct pb_stores {
    struct pb_store **stores; /* by pid, then start */
    size_t nstores;
    uint64_t changes; /* differs when tables, columns or processes differ */
    _Atomic int refs;
};

struct pb_discover;

typedef const struct pb_ring_spec *pb_known_table_fn(const char *table);

struct pb_discover_opts {
    const char *store_dir; /* only this folder, or NULL */
    /*
     * Nodes of other data folders than this measure the same machine: what they wrote is left
     * out. NULL: it is not.
     */
    const char *data_dir;
    /* A ring is seen for the first time and by nobody else yet: say what is sealed; or NULL. */
    void (*adopt)(void *arg, struct pb_store_ring *ring);
    /*
     * Is a ring one that must not be read? Asked before it is opened, with created_ns 0, and behind
     * that. why receives the reason; or NULL.
     */
    bool (*set_aside)(void *arg, const struct stat *st, uint64_t created_ns, char *why, size_t cap);
    /* The columns of a table of the tool's own; NULL: the table is somebody's. Or NULL. */
    pb_known_table_fn *known;
    /* Around opening one, which reads what a stranger wrote; or NULL. */
    int (*begin)(void *arg, const struct stat *st);
    void (*end)(void *arg, int begun);
    bool map; /* own rings may be mapped: SIGBUS has a handler (watchdog/deaths.h) */
    void *arg;
    /* Settings store.keep_hours and store.keep_mb as of now, for pb_discover_collect; or NULL. */
    void (*keep)(void *arg, int64_t *ret_hours, int64_t *ret_mb);
};

int pb_discover_create(struct pb_discover **ret, const struct pb_discover_opts *o,
                       struct pb_err *err);
void pb_discover_destroy(struct pb_discover *d);
/*
 * Looks again unless that was done in the last max_age_ms; below 0: also for processes in other
 * mount namespaces, which are looked for every two seconds only. Give back with pb_stores_unref.
 */
struct pb_stores *pb_discover_snapshot(struct pb_discover *d, int max_age_ms);
void pb_stores_unref(struct pb_stores *s);

/* Value of a key in meta or status, copied into the arena; NULL when there is none. */
char *pb_store_value(const char *lines, const char *key, struct pb_arena *a);
/* "SIGSEGV", "exit 1"; NULL: nobody knows. ret_killed: it was by a signal. */
const char *pb_store_end(const struct pb_store *s, struct pb_arena *a, bool *ret_killed);
/* A folder's files worth keeping go by age and size here; never those of a living process. */
void pb_discover_collect(struct pb_discover *d);

#endif
