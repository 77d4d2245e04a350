/*
 * internal.h - what the files of peers/ share.
 *
 * Owns: see peers.h.
 * Threads: `lock` guards all but the atomics; nothing that waits is done under it.
 * Fails: as peers.h says.
 */
#ifndef PB_NODE_PEERS_INTERNAL_H
#define PB_NODE_PEERS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "node/access/token.h"
#include "node/peers/peers.h"

enum { PB_PEERS_SEEDS = 64 };

struct pb_peers {
    struct pb_peers_opts opts;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    bool resuming; /* started anew, and what it knew is being read and looked for */
    bool lost;     /* none of them answered then */

    bool attached, observer;
    char name[PB_GOSSIP_NAME];
    char token[PB_TOKEN_MAX]; /* token of the cluster; "": this user's own */
    uint64_t stamp;           /* stamp of the token files that `key` was made of */
    struct pb_key key;
    char bound[128]; /* address this node listens at; "" for none */
    int port;
    struct pb_members members;
    char seeds[PB_PEERS_SEEDS][PB_MEMBER_ADDRESS];
    size_t nseeds;
    uint64_t jobs_ns;   /* when the ranks of this machine were last looked at */
    uint64_t digest_ns; /* when a whole list was last compared */
    uint64_t gone_ns;   /* time at which a member in state GONE was last tried */
    uint64_t saved_ns;
    size_t saved;       /* how many others the file knew when it was made */
    size_t turn;        /* index of the next member in `order` */
    char (*order)[PB_MEMBER_ID]; /* members in the order in which they are talked to */
    size_t norder;

    _Atomic uint64_t exchanges, bytes_in, bytes_out, refused;
};

/* exchange.c. None of these is called with the lock held. */

/* One talk with whoever is at an address; id: who it should be, or NULL. */
int pb_peers_exchange(struct pb_peers *p, const char *address, const char *id, int timeout_ms,
                      char ret_id[PB_MEMBER_ID], struct pb_err *err);
/* With many at once; a result for each. */
void pb_peers_meet(struct pb_peers *p, const char *const *addresses, size_t n, int timeout_ms,
                   struct pb_peers_seed *ret);
/* The same with a member, at each of its addresses. */
int pb_peers_reach(struct pb_peers *p, const char *id, int timeout_ms, struct pb_err *err);
/* Asks another member whether it reaches this one. */
bool pb_peers_reached_by(struct pb_peers *p, const char *other, const char *id, int timeout_ms);
/*
 * With the lock held: an address of ours, without a port, that a connection from or to another
 * member had: others are told where we are.
 */
void pb_peers_note_own(struct pb_peers *p, const char *own);
/* Tells a few that this node leaves. */
void pb_peers_say_goodbye(struct pb_peers *p);

/* peers.c: talks to all that were known before the start, at once. */
void pb_peers_meet_saved(struct pb_peers *p);

/* rounds.c */
void *pb_peers_rounds(void *peers);
/* Looks at the ranks of this machine; others are told when they have changed. */
void pb_peers_look_at_jobs(struct pb_peers *p);

/* saved.c: the file of an attached node. */
void pb_peers_save(struct pb_peers *p);
/* The same, when there are more members than the file knows and has room for. */
void pb_peers_save_more(struct pb_peers *p);
void pb_peers_forget_saved(struct pb_peers *p);
/* What a file says; false when there is none or it is not worth going by. Texts in the arena. */
bool pb_peers_read_saved(struct pb_peers *p, struct pb_peers_attach *ret, struct pb_arena *a);

/* Makes the key anew when the token has changed; false when there is none. With the lock held. */
bool pb_peers_refresh_key(struct pb_peers *p);

#endif
