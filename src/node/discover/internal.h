/*
 * internal.h - the parts of discovery: processes, one folder, its small files.
 *
 * Owns: nothing itself; see struct pb_folder.
 * Threads: whoever holds the lock of struct pb_discover.
 * Fails: as said at each call.
 * Not here: what others may use (discover.h).
 */
#ifndef PB_NODE_DISCOVER_INTERNAL_H
#define PB_NODE_DISCOVER_INTERNAL_H

#include <sys/stat.h>

#include "node/discover/discover.h"

/* What tells that a folder is as it was when it was last listed. */
struct pb_folder_stamp {
    dev_t dev;
    ino_t ino;
    struct timespec mtime;
    bool settled; /* a later change cannot carry the same mtime */
};

enum { PB_FOLDER_PATH_MAX = 256 };

/* One process's folder. */
struct pb_folder {
    char path[PB_FOLDER_PATH_MAX];
    uid_t owner;
    struct pb_folder_stamp stamp;
    struct pb_scope_process process;
    pid_t ns_pid;
    bool judged; /* living or dead was found out */
    bool copied; /* named by --store: dead whatever its number says */
    bool forged; /* it bears the name of a living process of somebody else */
    int pidfd;   /* a living process's; -1: none, or the kernel has no such thing */
    int64_t first_seen_ns;
    struct pb_store *store; /* current version; NULL: nothing in it is worth showing */
    bool seen; /* while its user's folder is listed */
};

/* What is left of what the rings of other users may take: descriptors and memory. */
struct pb_ring_room {
    size_t rings, columns;
};

/* What all folders share. */
struct pb_surroundings {
    char host[64];
    char boot_id[40];
    const struct pb_discover_opts *opts;
    struct pb_ring_room room; /* for the folder that is read now, when it is another user's */
};

/* process.c */

/* "<pid>-<start>" to numbers; false for any other text. */
bool pb_process_id_parse(const char *id, pid_t *ret_pid, uint64_t *ret_start);
/*
 * A process as stores, scopes and history know it: "<pid>-<start>", with "-<uid>" behind it when
 * the user is not ours. Whose folder it is, is all that is certain of one that has ended.
 */
void pb_process_key(char buf[PB_PROCESS_ID_MAX], pid_t pid, uint64_t start, uid_t uid);
bool pb_process_key_parse(const char *key, pid_t *ret_pid, uint64_t *ret_start, uid_t *ret_uid);
/* When a process of this boot that started at that tick did so, since 1970. */
int64_t pb_process_since_ns(uint64_t start);
/* The processes of other pid namespaces; listed at first use, which takes a walk through /proc. */
struct pb_inner_pid {
    pid_t pid, ns_pid;
    uint64_t start;
};
struct pb_inner_pids {
    bool listed;
    struct pb_inner_pid *v;
    size_t n;
};
void pb_inner_pids_forget(struct pb_inner_pids *p);
/* Finds the living process behind a folder: sets process.pid, live and pidfd. */
void pb_folder_judge(struct pb_folder *f, struct pb_inner_pids *inner);
/* False: it ended since. */
bool pb_folder_lives(const struct pb_folder *f);

/* end.c */

/* Writes down when it ended, and how if that can be known. Before its pidfd is closed. */
void pb_folder_note_end(const struct pb_folder *f);

/* meta.c */

/* A small file of lines in a folder, malloc'd; "" when it is not there. */
char *pb_meta_read(int dir, const char *name);
int64_t pb_meta_number(const char *lines, const char *key, int64_t default_value);
bool pb_meta_is(const char *lines, const char *key, const char *value);
/* Which process a copied folder was of: its meta says so, else its name; false: neither does. */
bool pb_folder_identify(const char *path, pid_t *ret_pid, uint64_t *ret_start);

/* foreign.c */

/* May this be read? Leaves out columns that a table of the tool's own has not. */
int pb_foreign_ring_check(struct pb_reader *r, uid_t uid, pb_known_table_fn *known,
                          struct pb_err *err);

/* store.c */

bool pb_folder_stamp_same(const struct pb_folder_stamp *s, const struct stat *st);
void pb_folder_stamp_set(struct pb_folder_stamp *s, const struct stat *st);
/*
 * Reads the folder again and makes the next version of its store, which shares the rings that
 * were there before. Returns 0, or -1 when the folder is gone or not what it should be.
 */
int pb_folder_read(struct pb_folder *f, struct pb_surroundings *s);
/* Makes the next version of its store, which says that the process died. */
void pb_folder_mark_dead(struct pb_folder *f, struct pb_surroundings *s);
struct pb_store *pb_store_ref(struct pb_store *s);
void pb_store_unref(struct pb_store *s);

#endif
