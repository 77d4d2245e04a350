/*
 * session.h - a browser that has signed in: what it sends instead of a token.
 *
 * Owns: tickets that were given out, in memory. Sessions are kept by the browser alone: what it
 * sends is signed, so that it outlives a server that died.
 * Threads: tickets any, under a lock of their own; the rest is pure.
 * Fails: in doubt there is no session.
 * Not here: what a token is good for (caller.h), whether a request is answered (guard.h).
 *
 * The browser keeps two halves, and a request needs both:
 *     the cookie        HttpOnly and SameSite=Strict: no script reads it, no other site's page
 *                       sends it. But cookies are a host's, not a port's: a browser shows it to
 *                       whoever serves another port of the same host.
 *     X-Probing-Page    a header that no form and no link sends, kept in the page's own storage,
 *                       which is this port's alone; a script of ours could leak it, not use it
 *                       elsewhere.
 * Both are of one token's hash, scope, end and Host, and end when the token does, or when the
 * user's own token is changed, which the key is made from. The hash is sealed: a short token could
 * be found from it.
 *
 * A ticket stands for a token once, for a few minutes: it may be seen in an address.
 */
#ifndef PB_NODE_HTTP_SESSION_H
#define PB_NODE_HTTP_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "node/access/token.h"

enum {
    PB_SESSION_COOKIE_MAX = 256,
    PB_SESSION_NAME_MAX = 32,
    PB_SESSION_NONCE = 17, /* 16 hexadecimal digits and a zero */
    PB_SESSION_DAYS = 7,
    PB_TICKETS = 64,
    PB_TICKET_S = 600,
};

struct pb_session {
    char hash[PB_SHA256_TEXT]; /* hash of the token */
    enum pb_right right;       /* at most */
    int64_t expires_s;         /* since 1970 */
    char nonce[PB_SESSION_NONCE]; /* another one for each session */
};

/* The cookie's name, one for each Host: nodes at two ports do not take each other's away. */
void pb_session_name(const char *host, char ret[PB_SESSION_NAME_MAX]);
/* The two halves. */
void pb_session_make(const char *key, const char *host, const struct pb_session *s,
                     char ret_cookie[PB_SESSION_COOKIE_MAX], char ret_page[PB_SHA256_TEXT]);
/* header: what Cookie says; page: what X-Probing-Page says. Either may be NULL. */
bool pb_session_read(const char *key, const char *host, const char *header, const char *page,
                     int64_t now_s, struct pb_session *ret);

struct pb_ticket {
    char code[PB_SHA256_TEXT]; /* hash of the ticket; "": free */
    char token[PB_SHA256_TEXT];
    enum pb_right right;
    uint64_t until_ns;
};

struct pb_tickets {
    pthread_mutex_t lock;
    struct pb_ticket v[PB_TICKETS];
};

void pb_tickets_init(struct pb_tickets *t);
void pb_tickets_finish(struct pb_tickets *t);
/* A new one for a token; the oldest gives way. */
int pb_tickets_add(struct pb_tickets *t, const char *token_hash, enum pb_right right,
                   uint64_t now_ns, char ret_code[PB_TOKEN_MAX], struct pb_err *err);
/* What it stands for; from then on it is used up. */
bool pb_tickets_use(struct pb_tickets *t, const char *code, uint64_t now_ns,
                    struct pb_session *ret);

#endif
