/*
 * discover_internal.h - the parts of discovery: processes, one folder, places to look at.
 *
 * Owns: nothing itself; see struct pb_folder.
 * Threads: whoever holds the lock of struct pb_discover.
 * Fails: as said at each call.
 * Not here: what others may use (discover.h).
 */
#ifndef PB_NODE_DISCOVER_INTERNAL_H
#define PB_NODE_DISCOVER_INTERNAL_H

#include <sys/stat.h>

#include "node/discover.h"

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
    int pidfd;   /* of a living process; -1: none, or the kernel has no such thing */
    int64_t first_seen_ns;
    struct pb_store *store; /* current version; NULL: nothing in it is worth showing */
    bool seen; /* while a place is listed */
};

/* What all folders share. */
struct pb_surroundings {
    char host[64];
    char boot_id[40];
    const struct pb_discover_opts *opts;
};

/* discover_process.c */

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
int64_t pb_now_ns(void); /* since 1970 */
/* The processes of other pid namespaces; listed at first use, which takes a walk through /proc. */
struct pb_inner_pids {
    bool listed;
    pid_t *v;
    size_t n;
};
void pb_inner_pids_forget(struct pb_inner_pids *p);
/* Finds the living process behind a folder: sets process.pid, live and pidfd. */
void pb_folder_judge(struct pb_folder *f, struct pb_inner_pids *inner);
/* False: it ended since. */
bool pb_folder_lives(const struct pb_folder *f);

/* discover_end.c */

/* Writes down when it ended, and how if that can be known. Before its pidfd is closed. */
void pb_folder_note_end(const struct pb_folder *f);

/* discover_store.c */

/* Which process a copied folder was of: its meta says so, else its name; false: neither does. */
bool pb_folder_identify(const char *path, pid_t *ret_pid, uint64_t *ret_start);
bool pb_folder_stamp_same(const struct pb_folder_stamp *s, const struct stat *st);
void pb_folder_stamp_set(struct pb_folder_stamp *s, const struct stat *st);
/*
 * Reads the folder again and makes the next version of its store, which shares the rings that
 * were there before. Returns 0, or -1 when the folder is gone or not what it should be.
 */
int pb_folder_read(struct pb_folder *f, const struct pb_surroundings *s);
/* The same store with another end: its process died. */
void pb_folder_bury(struct pb_folder *f, const struct pb_surroundings *s);
struct pb_store *pb_store_take(struct pb_store *s);
void pb_store_drop(struct pb_store *s);

#endif
