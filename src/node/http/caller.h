/*
 * caller.h - who asks: what the token that came with a request is good for, and how fast somebody
 * may go on guessing.
 *
 * Owns: a copy of the tokens, read again when their files change, and the recent failures of each
 * address.
 * Threads: the loop's.
 * Fails: in doubt nobody is known.
 * Not here: the files (node/access/token.h), the answer to who is refused (guard.c).
 */
#ifndef PB_NODE_HTTP_CALLER_H
#define PB_NODE_HTTP_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "host/net/key.h"
#include "node/access/token.h"

enum pb_caller_kind {
    PB_CALLER_LOCAL,  /* over the Unix socket: the owner of the node, or root */
    PB_CALLER_ANYONE, /* a port without a token */
    PB_CALLER_PORT,   /* has the token that a port was opened with: for those who opened it so */
    PB_CALLER_OWN,    /* has the user's own token */
    PB_CALLER_NAMED,  /* has one made by `probing token new` */
};

struct pb_caller {
    enum pb_caller_kind kind;
    enum pb_right right;
    char token[PB_TOKEN_NAME_MAX]; /* its name, for people; "" for none */
    char hash[PB_SHA256_TEXT];     /* hash of the token */
    char reach[PB_PROCESS_ID_MAX]; /* NAMED: the one process it is for, or "" */
    uid_t uid;                     /* LOCAL: who it is */
    pid_t pid;
};

enum { PB_GUESSERS = 256, PB_GUESSES_FREE = 5 };

/* An address that gave wrong tokens; of IPv6 the network, since a machine has many in it. */
struct pb_guesser {
    unsigned char key[8];
    unsigned failures;
    uint64_t last_ns, until_ns; /* its next request is looked at then */
};

struct pb_callers {
    uint64_t stamp;
    bool has_own;
    char own[PB_SHA256_TEXT];
    struct pb_key own_key;
    char page_key[PB_SHA256_TEXT]; /* what sessions of browsers are signed with (session.h) */
    struct pb_tokens named;
    struct pb_key *named_keys; /* in the same order */
    struct pb_arena arena; /* memory of named */
    struct pb_guesser guessers[PB_GUESSERS];
};

void pb_callers_finish(struct pb_callers *s);
/* The key of sessions, as of now: it changes with the user's own token. */
const char *pb_callers_page_key(struct pb_callers *s);

/* Is it the user's own token, or one with a name? Fills kind, right, token and reach. */
bool pb_callers_identify(struct pb_callers *s, const char *hash, struct pb_caller *ret);

/* The key of this name, and the hash of the token that it comes from. */
bool pb_callers_key(struct pb_callers *s, const char *id, struct pb_key *ret,
                    char ret_hash[PB_SHA256_TEXT]);

/* When a request of this address is to be looked at: 0 for now. */
uint64_t pb_callers_wait(const struct pb_callers *s, const struct sockaddr_storage *from,
                         uint64_t now_ns);
/*
 * Counts a failure; returns how many there were from this address lately. From the sixth on each
 * one doubles the time until the next is looked at: first_ms, up to max_ms.
 */
unsigned pb_callers_failed(struct pb_callers *s, const struct sockaddr_storage *from,
                           uint64_t now_ns, int first_ms, int max_ms);

#endif
