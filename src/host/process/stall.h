/*
 * stall.h - which thread waits for another process's memory, and since when.
 *
 * Owns: nothing; the memory is the caller's, perhaps shared with a process that looks on.
 * Threads: begin and end from any; pb_stalls_use before there are others; one that judges.
 * Fails: never; where there is no room a wait goes unnoted.
 * Not here: what becomes of whoever waits (watchdog/supervise.c, cli/patience.c).
 *
 * A page may never come: that of a file whose file system hangs, or one that the process holds
 * back by userfaultfd or a file system of its own. The kernel then ends the wait by SIGKILL alone.
 * So somebody else looks on and ends whoever waits; and the next one does not read that process.
 */
#ifndef PB_HOST_PROCESS_STALL_H
#define PB_HOST_PROCESS_STALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PB_STALL_SLOTS = 64, PB_STALLED_MAX = 64 };

struct pb_stall_slot {
    _Atomic uint64_t since_ns; /* 0: free */
    _Atomic pid_t pid;
};

/* A process that was waited for in vain. */
struct pb_stalled {
    pid_t pid; /* 0: free */
    uid_t uid;
    uint64_t start, when_ns;
};

struct pb_stalls {
    struct pb_stall_slot slots[PB_STALL_SLOTS];
    struct pb_stalled stalled[PB_STALLED_MAX];
    _Atomic uint32_t nstalled; /* so far, also those that were forgotten again */
    void (*first)(void);       /* called at the first begin, then cleared; or NULL */
    _Atomic bool begun;
};

/* This process notes its waits there from now on. */
void pb_stalls_use(struct pb_stalls *s);

/*
 * Around each read. Slot for end(), or -1 where nobody looks on; PB_STALL_REFUSED, with errno
 * ETIMEDOUT: the process is not to be read, nor are others of a user who has had several of those.
 */
enum { PB_STALL_REFUSED = -2 };
#define PB_STALL_REASON                                                                            \
    "set aside for ten minutes: its memory did not come, a file system hangs or it holds a page "  \
    "back"
int pb_stall_begin(pid_t pid);
void pb_stall_end(int slot);

/*
 * Is anything waited for longer than limit_ns? Then which process; it is not read any more for ten
 * minutes. 0: no.
 */
pid_t pb_stalls_judge(struct pb_stalls *s, uint64_t limit_ns);
/* Those who waited are gone. */
void pb_stalls_clear(struct pb_stalls *s);

#endif
