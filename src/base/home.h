/*
 * home.h - the folder of an agent, and sweeping up after processes that are gone.
 *
 * Owns: nothing; the caller holds descriptors and paths.
 * Threads: any.
 * Fails: with a negative errno. A folder that is not a real folder, not its
 * owner's or open to others is refused, never repaired or followed.
 * Not here: the socket (agent/control.h, host/net/agent_socket.h), what is in the files
 * (agent/collectors/, store/).
 *
 * The folder of a user is <root>/probing-<uid>. The roots are open to all: where somebody else has
 * taken that name, it is <root>/probing-<uid>-<16 random digits>, which its owner finds again by
 * owner and mode. Nobody but that user can make such a folder, so nobody can be in its place.
 *
 *     <root>/probing-<uid>/<pid>-<starttime>/control
 *                                            meta, status, progress, crash
 *                                            <schema>.<table>.<generation>.ring
 */
#ifndef PB_BASE_HOME_H
#define PB_BASE_HOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PB_HOME_MAX = 96, PB_HOME_RANDOM = 16 /* digits of a random name */ };

#define PB_HOME_SOCKET "control"
#define PB_HOME_NODE "node-" /* what the socket of a node begins with, in the user's folder */
#define PB_HOME_META "meta"
#define PB_HOME_STATUS "status"
#define PB_HOME_PROGRESS "progress" /* where a training process is right now: store/progress.h */
#define PB_HOME_CRASH "crash" /* room for the record of a crash: store/crash.h */
#define PB_HOME_END "end" /* when and how the process ended, by a node that saw it */
#define PB_HOME_RING ".ring" /* how the name of a table's file ends */

/* Where folders may be, best first; ends with NULL. */
extern const char *const pb_home_roots[];

/*
 * The folders of a user in a root, one after the other: path is "" at first, then the one before.
 * name and owner are the same uid but for a user namespace that calls it otherwise. Returns a
 * descriptor of a checked folder, or -ENOENT when there are no more.
 */
int pb_home_next(char path[PB_HOME_MAX], const char *root, uid_t name, uid_t owner);
/* The first of them, made if need be; returns a descriptor of it. */
int pb_home_user_create(char path[PB_HOME_MAX], const char *root, uid_t uid);
/* The path of the first of them, or what it would be; and that of a process's folder in it. */
void pb_home_user_path(char buf[PB_HOME_MAX], const char *root, uid_t uid);
void pb_home_path(char buf[PB_HOME_MAX], const char *root, uid_t uid, pid_t pid, uint64_t start);

/* 0 when fd is a folder of this user that nobody else can enter, else -EPERM or so. */
int pb_home_check(int fd, uid_t uid);
/* Makes the folder of a process, and the user's around it; returns a descriptor, and its path. */
int pb_home_create(char path[PB_HOME_MAX], const char *root, uid_t uid, pid_t pid, uint64_t start);
/* Removes socket, folder and the user's folder; one with something else in it stays. */
void pb_home_remove(const char *path);
/* Removes the tables in the folder, then as pb_home_remove. */
void pb_home_erase(const char *path);
/* Calls each for the files in a folder; ends when one says false. Nothing is allocated. */
void pb_home_list(int fd, bool (*each)(int fd, const char *name, void *arg), void *arg);
bool pb_home_is_ring(const char *name);

/* Does somebody listen on the agent's socket in this folder, or on a socket itself? Anything but
 * a clear no counts as yes. */
bool pb_home_answers(const char *path);
bool pb_home_listens(const char *socket_path);

/* Text of /proc/sys/kernel/random/boot_id; "" when it cannot be read. */
void pb_home_boot_id(char buf[40]);
/*
 * When a process began: 22nd field of /proc/PID/stat (pid 0: this process). 0 when there is none,
 * or it has ended and just waits for its parent to notice.
 */
uint64_t pb_home_start_time(pid_t pid);

/* What stays of the tables of ended processes. */
struct pb_home_keep {
    int64_t seconds; /* since they were last written */
    int64_t bytes;   /* bytes of all together; never more than a quarter of the file system */
};

/*
 * Removes the folders of this user whose process is gone: no process of that
 * number, age and boot in this pid namespace, and nobody listens on the socket
 * (which also holds for processes of other pid namespaces). One with tables in
 * it stays; with keep, only as long as that says, and the oldest go first.
 * Without keep it is quick: a folder that has no socket is not looked into.
 * Returns how many were removed.
 */
int pb_home_sweep(const char *root, uid_t uid, const struct pb_home_keep *keep);

#endif
