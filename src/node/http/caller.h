/*
 * caller.h - who asks: what the token that came with a request is good for, and how fast somebody
 * may go on guessing.
 *
 * Owns: a copy of the tokens, read again when their files change, and the recent failures of each
 * address.
 * Threads: the loop's.
 * Fails: in doubt nobody is known.
 * Not here: the files (node/token.h), the answer to who is refused (guard.c).
 */
#ifndef PB_NODE_HTTP_CALLER_H
#define PB_NODE_HTTP_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "node/token.h"

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
    char hash[PB_SHA256_TEXT];     /* of the token */
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
    struct pb_tokens named;
    struct pb_arena arena; /* of named */
    struct pb_guesser guessers[PB_GUESSERS];
};

void pb_callers_finish(struct pb_callers *s);

/* Is it the user's own token, or one with a name? Fills kind, right, token and reach. */
bool pb_callers_know(struct pb_callers *s, const char *hash, struct pb_caller *ret);

/* When a request of this address is to be looked at: 0 for now. */
uint64_t pb_callers_wait(const struct pb_callers *s, const struct sockaddr_storage *from,
                         uint64_t now_ns);
/*
 * Counts a failure; returns how many there were from this address lately. From the sixth on each
 * one doubles the time until the next is looked at: first_ms, up to most_ms.
 */
unsigned pb_callers_failed(struct pb_callers *s, const struct sockaddr_storage *from,
                           uint64_t now_ns, int first_ms, int most_ms);

#endif
