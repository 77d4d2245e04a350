/*
 * members.h - the nodes of a cluster as one of them knows them, and how two such lists become one.
 *
 * Owns: the list. A record is the node's that it is about: only that node raises its version;
 * others may say that it is suspect or gone, which it refutes by a higher version.
 * Threads: none of its own; whoever holds the list has a lock.
 * Fails: what a peer says that cannot be is refused and counted.
 * Not here: when to talk to whom (node/peers/), bytes on the wire (fan.h).
 *
 * Of two records of one node the later one counts: by generation (when it started), then version,
 * then state. A node that starts again has a new id; at the same address it takes the place of the
 * old one. Those that are gone are kept for a while to be looked for again, but count for nothing
 * in the sum by which two lists are compared, and are not taken over from others: so they die out.
 */
#ifndef PB_CLUSTER_MEMBERS_H
#define PB_CLUSTER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/text/buf.h"
#include "host/text/json.h"

enum {
    PB_MEMBERS_MAX = 16384,
    PB_MEMBER_ID = 17, /* 16 hexadecimal digits */
    PB_MEMBER_HOST = 64,
    PB_MEMBER_ADDRESS = 72,
    PB_MEMBER_ADDRESSES = 4,
    PB_MEMBER_JOBS = 16,
    PB_MEMBER_JOB = 160,
    PB_MEMBER_SCRIPT = 64,
    PB_MEMBER_RANKS = 512,
    PB_MEMBER_VERSION = 24,
    PB_MEMBER_REASON = 120,
    PB_MEMBER_TOLD = 1 << 20,
    PB_MEMBER_PORTS = 4, /* ports from cluster.port on, of which a node takes the first free one */
};

/* Highest version number of a record that is believed. */
#define PB_MEMBER_VERSION_MAX ((uint64_t)1 << 48)

/* For the same version of a record the later state wins. */
enum pb_member_state {
    PB_MEMBER_ALIVE,
    PB_MEMBER_SUSPECT, /* did not answer one member */
    PB_MEMBER_GONE,    /* suspect for a while without a sign of life */
    PB_MEMBER_LEFT,    /* said goodbye, or was started again */
};

/* Ranks of one job on a node. */
struct pb_member_job {
    char key[PB_MEMBER_JOB];       /* what all ranks of the job have in common: "10.0.0.1:29500" */
    char script[PB_MEMBER_SCRIPT]; /* "train.py" */
    char ranks[PB_MEMBER_RANKS];   /* "0-7" */
    uint32_t world, restarts;
};

struct pb_member {
    char id[PB_MEMBER_ID];
    uint64_t generation, version;
    enum pb_member_state state;
    char host[PB_MEMBER_HOST];
    char software[PB_MEMBER_VERSION];
    uint32_t protocol;
    char at[PB_MEMBER_ADDRESSES][PB_MEMBER_ADDRESS]; /* where somebody reached it; latest first */
    size_t nat;
    struct pb_member_job *jobs;
    size_t njobs;

    /* What this node alone knows of it. */
    uint64_t since_ns;  /* monotonic time at which `state` was set */
    uint64_t heard_ns;  /* monotonic: last exchange with it; 0: none */
    int64_t offset_ns;  /* its clock minus ours, within error_ns; error_ns 0: not measured */
    uint64_t error_ns;
    uint64_t offset_at_ns; /* monotonic time at which offset_ns was measured */
    char via[PB_MEMBER_ADDRESS]; /* the address that worked last, or "" */
    unsigned told; /* to how many others its last change was passed on; PB_MEMBER_TOLD: enough */
    char reason[PB_MEMBER_REASON]; /* why it did not answer us, or "" */
};

struct pb_members {
    struct pb_member **v; /* by id; v[0..n) */
    size_t n, cap;
    char self[PB_MEMBER_ID];
    uint64_t refused; /* count of records that were refused as impossible */
};

void pb_members_finish(struct pb_members *m);
void pb_member_finish(struct pb_member *one);
struct pb_member *pb_members_find(const struct pb_members *m, const char *id);
/* The record of this node itself, or NULL. */
struct pb_member *pb_members_self(const struct pb_members *m);
/* How many are alive or suspect, this node included. */
size_t pb_members_count(const struct pb_members *m);
/* By any of its addresses; the dead are passed over. */
struct pb_member *pb_members_at(const struct pb_members *m, const char *address);

/* Adds this node; its record is owned from then on. */
void pb_members_set_self(struct pb_members *m, struct pb_member *one);
/* This node's own record has changed in what it says: others are to hear of it. */
void pb_member_touch(struct pb_member *one);
/* Puts an address in front of those it has; true when it was not there. */
bool pb_member_add_address(struct pb_member *one, const char *address);
/* Changes the state as this node sees it. */
void pb_member_set_state(struct pb_member *one, enum pb_member_state state, uint64_t now_ns);

/*
 * Takes over what another node says, as far as it is news; *one is empty afterwards. True when the
 * list has changed. What is said of this node itself is refuted. old_news: not to be passed on.
 */
bool pb_members_merge(struct pb_members *m, struct pb_member *one, bool old_news, uint64_t now_ns);
/* Forgets those that have been gone or left for longer than that. */
void pb_members_forget(struct pb_members *m, uint64_t now_ns, uint64_t after_ns);

/* Equal for two lists that say the same of the living. */
uint64_t pb_members_sum(const struct pb_members *m);
const char *pb_member_state_name(enum pb_member_state state);

/* One record as JSON, and back. Reading refuses what cannot be. */
void pb_member_write(struct pb_buf *b, const struct pb_member *one);
int pb_member_read(struct pb_member *ret, const struct pb_json *json, struct pb_err *err);

#endif
