/*
 * waits.h - what every thread of some processes waits for, and who would have to act.
 *
 * Owns: struct pb_looks, what the node remembers of earlier looks; everything else goes into the
 * caller's arena.
 * Threads: any; looks have a lock of their own.
 * Fails: never; a process that cannot be read has no rows, a peer that cannot be told is not told.
 * Not here: judging (share/verdicts), the table (tables/python_waits.c).
 *
 * One look reads the stacks of the processes, the system calls their threads sleep in, descriptors
 * and the processes at the other end of them. An edge leads from a thread to the one that would
 * have to act; following edges leads to a root, or round in a cycle.
 */
#ifndef PB_NODE_WAITS_H
#define PB_NODE_WAITS_H

#include "node/stacks/cache.h"
#include "stack/snapshot.h"

/* X(name, word): what a thread waits for. */
#define PB_WAIT_KINDS(X)                                                                           \
    X(RUNNING, "running")                                                                          \
    X(STOPPED, "stopped")                                                                          \
    X(DEBUGGER, "debugger")                                                                        \
    X(GIL, "gil")                                                                                  \
    X(COLLECTIVE, "collective")                                                                    \
    X(GPU, "gpu")                                                                                  \
    X(LOCK, "lock")                                                                                \
    X(THREAD, "thread")                                                                            \
    X(QUEUE, "queue")                                                                              \
    X(EVENT, "event")                                                                              \
    X(FUTURE, "future")                                                                            \
    X(AWAIT, "await")                                                                              \
    X(PROCESS_LOCK, "process lock")                                                                \
    X(FILE_LOCK, "file lock")                                                                      \
    X(CHILD, "child")                                                                              \
    X(PIPE, "pipe")                                                                                \
    X(SOCKET, "socket")                                                                            \
    X(LISTEN, "listen")                                                                            \
    X(POLL, "poll")                                                                                \
    X(TERMINAL, "terminal")                                                                        \
    X(DISK, "disk")                                                                                \
    X(PAGE_FAULT, "page fault")                                                                    \
    X(SLEEP, "sleep")                                                                              \
    X(SIGNAL, "signal")                                                                            \
    X(OTHER, "other")

enum pb_wait_kind {
#define X(name, word) PB_WAIT_##name,
    PB_WAIT_KINDS(X)
#undef X
};

/* X(name, word): what a thread that goes on does for the program, as far as libraries tell. */
#define PB_PHASES_OF(X)                                                                            \
    X(OWN, "own")                                                                                  \
    X(DATA, "data")                                                                                \
    X(GARBAGE, "garbage collection")                                                               \
    X(CHECKPOINT, "checkpoint")                                                                    \
    X(LOGGING, "logging")                                                                          \
    X(COMPILATION, "compilation")                                                                  \
    X(LAYER, "Python code of a layer")                                                             \
    X(ASIDE, "code beside the model")

enum pb_phase {
#define X(name, word) PB_PHASE_##name,
    PB_PHASES_OF(X)
#undef X
    PB_PHASES
};

/* Values that a variable of the program's own code named as a loss had, in glances. */
struct pb_loss {
    int64_t n, finite;
    int64_t changes; /* from one glance to the next: the training goes on */
    int64_t bad; /* the last ones in a row that are infinite or not a number */
    double first, last; /* first: of the finite ones */
};

const char *pb_wait_name(enum pb_wait_kind kind);
const char *pb_phase_name(enum pb_phase phase);
/* Is this file Python's own or an installed package's? */
bool pb_wait_is_library(const char *file);

#define PB_WAIT_PEERS 16

struct pb_wait_peer {
    pid_t pid, tid; /* tid 0: the process as a whole */
};

struct pb_wait_process {
    pid_t pid;
    uint64_t start;
    int64_t rank; /* -1: unknown */
};

struct pb_tally {
    char func[96], file[256];
    int line;
    enum pb_phase phase;
    int64_t n; /* glances; 0: nowhere */
    int64_t ran; /* those in which it was in no system call */
};

struct pb_wait {
    const struct pb_wait_process *process;
    const struct pb_snapshot *snapshot;
    const struct pb_thread *thread;
    enum pb_wait_kind kind;
    const char *what; /* "all_reduce", "read from pipe 1234", …; NULL: nothing to add */
    struct pb_wait_peer peers[PB_WAIT_PEERS]; /* who could end the wait; one of them is enough */
    size_t npeers;
    bool alone;    /* nobody else is at the other end: it was looked for */
    bool spoke;    /* by TCP, and something was said already */
    bool asked;    /* … by it, at last: the other end owes an answer */
    bool outside;  /* somebody beyond this machine's Python processes may end it */
    bool timed;    /* whether the wait has a time limit */
    double left_ms; /* rest of a sleep; -1: not known */
    const struct pb_frame *top;  /* innermost Python frame, or NULL */
    const struct pb_frame *user; /* innermost one of the program's own code, or NULL */
    pid_t on_pid, on_tid;        /* the peer that the chain goes on with */
    bool inferred;               /* whether on_pid is a guess, not read from the wait itself */
    const struct pb_wait *root;  /* end of the chain; itself where there is no edge */
    pid_t circle;                /* smallest thread of the circle that it is in; 0: none */
    /* From the kernel and from earlier looks. */
    double stalled_ms; /* time since the thread last ran */
    double same_ms;    /* seen at the same place, line included */
    double shape_ms;   /* seen in the same calls, whatever the line */
    double news_ms;    /* since the program's own code was in a state not seen before */
    double top_share;  /* part of the samples with the own code itself at work, and variables that
                          are all shown */
    int64_t samples;   /* of the program's own functions and their variables, the last ones */
    int64_t states;    /* different states among the last samples */
    bool idles;        /* it wakes up now and then, to the same sleep with the same variables */
    double on_idle_ms; /* time since the process waited for, or a child of it, last ran; -1 */
    double cpu_pct;    /* CPU use since the previous look, 100: one core; -1: first look */
    int64_t looks;
    /* Where a main thread that goes on was met, in glances of all these looks. */
    int64_t glances, glances_comm; /* all; those in which it waited between ranks */
    struct pb_tally busy;          /* where it was most of the other times */
    struct pb_tally work;          /* … in no system call */
    bool trains;                   /* met in a model, backward pass or optimizer, or with a loss */
    enum pb_phase phase;           /* met most, that of the program itself apart */
    int64_t aside_glances;         /* in phases of data, checkpoints, logs, or beside the model */
    int64_t phase_glances, phase_turns; /* turns: times it came to that phase from another one */
    struct pb_tally phase_at;           /* where it was most of these times */
    struct pb_loss loss;
    double import_ms; /* since it was last met in an import; -1: never */
};

struct pb_looks;

struct pb_looks *pb_looks_create(void);
void pb_looks_destroy(struct pb_looks *l);

/* How many of a look's threads are kept: the whole of a machine's ranks and their workers. */
#define PB_LOOKS_MAX 4096

struct pb_wait_set {
    struct pb_wait *v;
    size_t n;
    struct pb_arena arena;
    struct pb_stack_batch *batches[4]; /* what the snapshots live in */
    size_t nbatches;
    struct pb_wait_process *processes;
    size_t nprocesses;
};

/* Whom to look at, and with what. */
struct pb_wait_question {
    const struct pb_wait_process *processes;
    size_t n;
    struct pb_pythons *pythons; /* to look also at whom they wait for; NULL: only at these */
    struct pb_stack_cache *stacks;
    struct pb_looks *looks;
};

void pb_waits_read(const struct pb_wait_question *q, struct pb_wait_set *ret);
void pb_waits_finish(struct pb_wait_set *s);

#endif
