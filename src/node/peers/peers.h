/*
 * peers.h - the cluster as this node knows it: who belongs to it, where they are, who answers.
 *
 * Owns: the list of members, the key they share, and one thread that talks to one of them every few
 * seconds. What it needs after a restart is in <data>/cluster (mode 0600), until it is detached.
 * Threads: calls from any.
 * Fails: attaching fails with a reason; what goes wrong with a peer later is said in its record.
 * Not here: the messages (cluster/gossip.h), connections (cluster/fan.h).
 *
 * There is no leader. Each node talks to one other at a time, in random order; each change spreads
 * in log n rounds. One that does not answer is tried by two others before it is suspect, and is
 * gone when it has been suspect for a while and has not refuted it. Those that are gone are tried
 * now and then, so that the two halves of a network that was cut find each other again.
 */
#ifndef PB_NODE_PEERS_PEERS_H
#define PB_NODE_PEERS_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/gossip.h"
#include "cluster/members.h"
#include "host/text/arena.h"
#include "host/net/key.h"
#include "node/access/token.h"

struct pb_peers;
struct pb_ranks;

/* How it gets a TCP port that answers whoever has the token; the server's (http/peers_port.c). */
struct pb_peers_port {
    int (*open)(void *arg, const char *address, const char *token, char *ret_bound, size_t cap,
                struct pb_err *err);
    void (*close)(void *arg, const char *bound);
    void *arg;
};

struct pb_peers_opts {
    const char *host;      /* name of this machine */
    const char *data_dir;  /* folder for the saved state; NULL: nothing is saved */
    const char *version;   /* version of probing */
    const _Atomic int64_t *interval_ms, *port; /* settings cluster.interval and cluster.port */
    struct pb_ranks *ranks;
};

/* What the options point to must outlive it. */
struct pb_peers *pb_peers_create(const struct pb_peers_opts *o);
/* Says goodbye to the others. NULL is fine. */
void pb_peers_destroy(struct pb_peers *p);

struct pb_peers_attach {
    const char *name;    /* name of the cluster; NULL: "default" */
    const char *token;   /* token that the nodes share; NULL: this user's own */
    const char *address; /* address to listen at; NULL: all interfaces, a free port of a few */
    bool observe;        /* ask, and do not be asked */
    const char *const *seeds; /* "10.0.0.3:7707": numbers */
    size_t nseeds;
};

/* How it went with one of the seeds. */
struct pb_peers_seed {
    const char *address;
    char host[PB_MEMBER_HOST]; /* who answered; "" for nobody */
    struct pb_err err;
};

/*
 * Joins, or with the same name and token adds seeds. Opens a port; talks to the
 * seeds before it returns. seeds: nseeds results in the arena. Another cluster must be left first.
 */
int pb_peers_attach(struct pb_peers *p, const struct pb_peers_port *port,
                    const struct pb_peers_attach *w, struct pb_arena *a,
                    struct pb_peers_seed **ret_seeds, struct pb_err *err);
/* pb_peers_resume is to come: until then nobody is told that there is no cluster. */
void pb_peers_expect(struct pb_peers *p);
/* As the file of an earlier node says; nothing when there is none. */
void pb_peers_resume(struct pb_peers *p, const struct pb_peers_port *port);
/* False when it was not attached. */
bool pb_peers_detach(struct pb_peers *p, const struct pb_peers_port *port);

/* What is known of the cluster, as of now. All texts in the arena. */
struct pb_peers_list {
    bool attached, observer;
    const char *name, *address;  /* address: where it listens, "" for an observer */
    const struct pb_member *v; /* this node first, then by host */
    size_t n;
    uint64_t refused; /* count of refused messages and records */
    /* Started anew, and nobody of those it knew has been met since: their addresses. */
    const char **lost;
    size_t nlost;
};
/* Waits for the first talks of a node that was started anew, for some seconds at most. */
void pb_peers_settle(struct pb_peers *p);
/* As of now, behind pb_peers_settle. */
void pb_peers_list(struct pb_peers *p, struct pb_arena *a, struct pb_peers_list *ret);
bool pb_peers_attached(struct pb_peers *p);
/* The key that members share. False when there is none. */
bool pb_peers_key(struct pb_peers *p, struct pb_key *ret);
/* The token that was given with the cluster; "" where it is the user's own, or there is none. */
void pb_peers_token(struct pb_peers *p, char ret[PB_TOKEN_MAX]);
/* Where to reach a member: what worked last, else the first of its addresses; "" for none. */
const char *pb_member_address(const struct pb_member *one);
/* Tells how it went with one that was asked: for its record. err NULL: it answered. */
void pb_peers_heard(struct pb_peers *p, const char *id, const char *address,
                    const struct pb_err *err);

/*
 * A message of another node: one of cluster/gossip.h, or {"probe": id}. from, here: the addresses
 * of its connection without ports, or "". The answer is added to *ret.
 */
int pb_peers_take(struct pb_peers *p, const struct pb_json *message, const char *from,
                  const char *here, int64_t came_ns, struct pb_buf *ret, struct pb_err *err);

/* Bytes and work so far: for probing.cost. */
struct pb_peers_cost {
    uint64_t exchanges, bytes_in, bytes_out, refused;
};
void pb_peers_cost(struct pb_peers *p, struct pb_peers_cost *ret);
void pb_peers_add_bytes(struct pb_peers *p, uint64_t in, uint64_t out);
/* An answer of a peer was refused, as one that makes no sense. */
void pb_peers_refuse(struct pb_peers *p);

#endif
