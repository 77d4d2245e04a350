/*
 * groups.h - the process groups of this process, and torch's count of their operations.
 *
 * Owns: an entry for each group that was met; weak references.
 * Threads: GIL held, no exception pending, but for the functions of watches that say otherwise.
 * Fails: NULL or -1 where something is not known.
 * Not here: operations (ops.h).
 *
 * Torch counts the operations of each backend in the C++ object that it is, and its events do not
 * say which group they are about. Where in the object the count is, is found by comparing it with
 * the count that torch tells, over several of its values, for each class of backends (watch.c).
 * Reads go through the kernel, as a group may be gone by then, unless the caller holds it.
 */
#ifndef PB_AGENT_COMM_GROUPS_H
#define PB_AGENT_COMM_GROUPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb_comm;
struct pb_self;
struct _object;

enum {
    PB_COMM_GROUPS = 64,  /* process groups */
    PB_COMM_PEERS = 64,   /* ranks of a group whose messages are counted */
    PB_COMM_BACKENDS = 2, /* backends of a group: [0] for any device, [1] for the CPU */
    PB_COMM_CLASSES = 4,  /* classes of backends whose counters are known */
    PB_COMM_SCAN = 256,   /* words of a backend that are examined */
};

/* Torch's count of one backend, watched in its memory. */
struct pb_comm_watch {
    _Atomic uintptr_t at;  /* address of the count; set last; 0: not watched */
    _Atomic uint32_t name; /* dictionary: the group */
    _Atomic int64_t size;  /* ranks in the group */
    _Atomic int64_t skew;  /* operations that torch counted besides collectives */
    atomic_flag lock;      /* for the next three fields; held for a few instructions only */
    int64_t last;          /* operations up to this number have a row */
    uint64_t some;         /* bit i: operation last + 1 + i has a row, too */
    int64_t behind;        /* torch's count minus last, at the last poll */
};

struct pb_comm_group {
    struct _object *object; /* compared only */
    struct _object *weak;   /* NULL: free entry */
    struct _object *ranks;  /* dict: rank in the job -> rank in the group; NULL: all ranks */
    uint32_t name;          /* dictionary of python.comm */
    uint32_t shown;         /* name for readers outside (progress.h) */
    int64_t size, rank;
    int64_t job_rank;       /* this process's rank in the job */
    int64_t asked, found;   /* other rank that was asked for last, and its rank in the job */
    int64_t counted;        /* collectives, where torch does not count them */
    int64_t pairs[2][PB_COMM_PEERS];         /* messages received from and sent to each rank */
    struct _object *types[PB_COMM_BACKENDS]; /* compared only: classes of its backends */
    uintptr_t backends[PB_COMM_BACKENDS];    /* their C++ objects; 0: none of its own */
    bool has_cpu;                            /* one of them is for tensors on the CPU */
    int64_t skew[PB_COMM_BACKENDS];
};

/* Where the objects of a class of backends have their count. */
struct pb_comm_counter {
    struct _object *type;      /* compared only; NULL: free entry */
    bool agreed[PB_COMM_SCAN]; /* words that were equal to the count at each poll so far */
    int64_t value;             /* count at the last poll */
    int polls;                 /* polls at different values */
    int word;                  /* the word with the count; -1: not known */
};

struct pb_comm_groups {
    struct pb_comm_group list[PB_COMM_GROUPS];
    struct pb_comm_watch watches[PB_COMM_GROUPS][PB_COMM_BACKENDS];
    struct pb_comm_counter counters[PB_COMM_CLASSES];
    struct _object *module;   /* torch.distributed.distributed_c10d */
    struct _object *sequence; /* ProcessGroup._get_sequence_number_for_group */
    struct _object *devices[PB_COMM_BACKENDS]; /* torch.device("cuda"), torch.device("cpu") */
};

/* Entry of a group, made at the first meeting; NULL: there are too many. */
struct pb_comm_group *pb_comm_group(struct pb_comm *c, struct _object *group);
/* Rank in the job of a rank in a group; PB_NULL_INT: not known. */
int64_t pb_comm_job_rank(struct pb_comm *c, const struct pb_comm_group *g, int64_t rank);
/* Torch's own count of a group's operations on such tensors, or -1. */
int64_t pb_comm_sequence(struct pb_comm *c, struct _object *group, bool device);
/* Calls each for all groups that torch knows. */
void pb_comm_groups_each(struct pb_comm *c, void (*each)(struct pb_comm *, struct _object *));
void pb_comm_groups_forget(struct pb_comm *c);

/* watch.c */
/* Any thread: reads this process's memory through the kernel; bytes, or -1. */
int64_t pb_comm_read(const struct pb_comm *c, void *to, uintptr_t from, size_t len);
/* Which of a group's backends works on such tensors. */
int pb_comm_backend(const struct pb_comm_group *g, bool device);
/* Learns where the count is, begins to watch it or goes on. */
void pb_comm_watch(struct pb_comm *c, struct pb_comm_group *g, struct _object *group);
void pb_comm_unwatch(struct pb_comm *c, const struct pb_comm_group *g);
/* The group has other backends now. */
void pb_comm_watch_forget_backends(struct pb_comm *c, struct _object *group);
/* The count of a group that the caller holds; -1: it is not watched. */
int64_t pb_comm_watched(struct pb_comm *c, const struct pb_comm_group *g, bool device);
/* Any thread: operations with these numbers have a row. */
void pb_comm_watch_mark(struct pb_comm_watch *w, int64_t first, int64_t last);
/* Any thread: finds a group that has counted an operation without a row; its number, or -1. */
int64_t pb_comm_watch_claim(struct pb_comm *c, struct pb_comm_watch **ret);
/* Any thread: the count now, or -1. */
int64_t pb_comm_watch_count(const struct pb_comm *c, const struct pb_comm_watch *w);
/* Any thread: what was counted up to now has a row, or will never have one. */
void pb_comm_watch_reset(struct pb_comm *c);
/* Collectives of all ranks so far, by torch's own count; -1: not known. */
int64_t pb_comm_collectives(struct pb_self *self);
/* Any thread: sum of all counts. */
int64_t pb_comm_watch_total(struct pb_comm *c);

#endif
