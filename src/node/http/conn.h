/*
 * conn.h - connections and listeners, the inside of the server.
 *
 * Owns: a server owns its listeners and connections; a connection its socket.
 * Threads: the loop's thread owns every connection but those that are busy; a busy one belongs
 * to the thread that answers it until it is handed back. What others may touch says so.
 * Fails: a connection that misbehaves is answered, if that makes sense, and closed.
 * Not here: routes (request.h).
 *
 *     accept ─► HANDSHAKE ─► HEAD ─► (guard) ─► READY ─► BUSY ─► HEAD …   one thread reads all
 *                 (TCP)        │     ▲ SLOW ▼              │             heads
 *                              └───────────────────────────┴───► LINGER ─► closed
 *
 * Only a request that is complete up to its empty line and permitted gets a thread. Those who
 * send slowly, or nothing, or nonsense, cost a buffer; when there are too many of them, the
 * oldest goes.
 */
#ifndef PB_NODE_HTTP_CONN_H
#define PB_NODE_HTTP_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "host/text/buf.h"
#include "host/net/http.h"
#include "host/net/key.h"
#include "host/net/stream.h"
#include "host/net/tls.h"
#include "node/discover/scope.h"
#include "node/http/caller.h"
#include "node/http/request.h"
#include "node/http/session.h"

/* Milliseconds. */
struct pb_limits {
    int head;        /* from the first byte of a head to its last */
    int idle;        /* between two requests */
    int body;        /* without a byte of the body */
    int queue;       /* for a free thread */
    int linger;      /* for the client to read the last answer */
    int write;       /* without the reader taking a byte */
    int local_write; /* `write` on the Unix socket: a pager waits for people */
    int guess;       /* after too many wrong tokens from one address: until the next is looked at */
    int guess_max;   /* longest `guess`, which doubles each time */
};

enum {
    PB_SERVER_HELD = 256, /* connections, each for Unix and TCP */
    PB_SERVER_BUSY = 64,  /* requests answered at once, each for Unix and TCP */
    PB_SERVER_LISTENERS = 32,
    PB_LISTENER_OWNERS = 256,
    PB_CERT_PATH = 512,
};

/* Who asked for a listener. */
struct pb_owner {
    char id[PB_PROCESS_ID_MAX]; /* "" is the node itself */
    char hash[PB_SHA256_TEXT];  /* hash of the token that it brought; "": the user's own opens it */
    struct pb_key key;          /* key made of the token that it brought */
};

/* A slot; slot 0 is the Unix socket. Guarded by the server's lock; `conns` is the loop's. */
struct pb_listener {
    int fd; /* -1: closed */
    bool tcp, no_token;
    bool plain; /* others may come without TLS */
    char cert[PB_CERT_PATH], cert_key[PB_CERT_PATH]; /* files, or "" */
    bool brief; /* it does not keep the node from ending */
    bool armed; /* the loop listens to it */
    char bound[PB_HTTP_NAME_MAX + 8];
    char host[PB_HTTP_NAME_MAX]; /* the host that was asked for */
    char names[2 * PB_HTTP_NAME_MAX]; /* of proxies that lead here: "hub.example,10.0.0.1" */
    struct pb_owner *owners;
    size_t nowners;
    _Atomic int conns;
};

/*
 * HANDSHAKE: TCP, and it is not known yet whether it is TLS, or TLS has begun. SLOW: waits since
 * its address gave wrong tokens; then the handshake or the head is looked at.
 */
enum pb_conn_state {
    PB_CONN_HANDSHAKE,
    PB_CONN_HEAD,
    PB_CONN_SLOW,
    PB_CONN_READY,
    PB_CONN_BUSY,
    PB_CONN_LINGER,
};

/* The answer that is being made. */
struct pb_reply {
    int status;
    const char *type;
    const char *cache, *policy; /* headers; NULL: the usual ones */
    struct pb_buf out;
    struct pb_buf notes; /* header lines, or trailer lines */
    bool sent, chunked, ended, head_only, upgraded;
};

struct pb_conn {
    struct pb_conn *prev, *next; /* all connections, longest waiting first */
    struct pb_conn *done;        /* queue of those handed back */
    struct pb_server *server;
    struct pb_listener *listener;
    bool tcp;
    struct pb_stream io;
    struct sockaddr_storage from; /* TCP */
    bool here;        /* TCP that does not leave this machine */
    bool handshake_done; /* TLS is there, or will not be */
    bool relayed;     /* what comes is another's (route_relay.c): TLS says nothing of who it is */
    bool unknown_key; /* it named a key that is not known */
    struct pb_caller caller;      /* who sent this request */
    char page_key[PB_SHA256_TEXT]; /* key of the sessions, for who signs in */
    enum pb_conn_state state; /* the loop's */
    uint64_t deadline;        /* the loop's */
    struct pb_http_head head;
    const struct pb_route *route;
    struct pb_reply reply;
    bool close;        /* after this answer */
    pthread_t thread;  /* while busy */
    size_t at, len;    /* bytes of in that are not dealt with: in[at..len) */
    pthread_mutex_t lock;
    int watched; /* descriptor that is shut down when the client goes; guarded by lock */
    _Atomic bool gone;
    char in[PB_HTTP_HEAD_MAX + 8192];
};

struct pb_server {
    struct pb_node *node;
    const struct pb_route *const *routes;
    struct pb_limits limits;
    char path[108]; /* path of the Unix socket */
    struct stat path_was;
    int epoll, wake;
    pthread_t thread;
    _Atomic bool stopping;
    struct pb_conn *oldest, *newest; /* the loop's, as are the counts */
    int held[2], busy[2];            /* Unix, TCP */
    uint64_t accept_again;           /* listeners rest until then: out of descriptors */
    struct pb_callers callers;       /* the loop's */
    struct pb_tls_context *tls;      /* the loop's; made when it is first needed */
    struct pb_tickets tickets;
    _Atomic int streams; /* pages that watch */
    char host[64];

    pthread_mutex_t lock; /* for what follows */
    struct pb_listener listeners[PB_SERVER_LISTENERS];
    struct pb_conn *done;

    _Atomic bool new_certificate; /* the loop is to read it */
    _Atomic int active;
    _Atomic uint64_t last_ns;
};

/* server.c: as pb_server_create, with other routes and limits. */
int pb_server_create_with(struct pb_server **ret, struct pb_node *node,
                          const struct pb_route *const *routes, const struct pb_limits *limits,
                          const char *socket_path, struct pb_err *err);
extern const struct pb_limits pb_server_limits;

/* loop.c: the thread that accepts, reads heads and keeps the time. */
void *pb_server_loop(void *server);
void pb_server_wake(struct pb_server *s);
/* Says that nothing more will come, and waits for the client to have read what did. */
void pb_conn_linger(struct pb_conn *c);

/* pool.c, called by the loop between two rounds of events: one of them may name a connection. */
/* Accepts whoever waits; the oldest idle ones make room. Called with the server's lock held. */
void pb_conns_accept(struct pb_server *s, struct pb_listener *l);
/* The connection counts as the newest again. */
void pb_conn_renew(struct pb_conn *c);
void pb_conn_close(struct pb_conn *c);

/* handshake.c, called by the loop. */
enum pb_handshake {
    PB_HANDSHAKE_DONE,  /* the head has been read: a request may be there already */
    PB_HANDSHAKE_GOES_ON, /* wait for what the stream says */
    PB_HANDSHAKE_LATER, /* at *ret_ns: its address gave wrong tokens */
    PB_HANDSHAKE_FAILED,
};
enum pb_handshake pb_conn_handshake(struct pb_conn *c, uint64_t *ret_ns);
/* Can the files be used? */
int pb_handshake_check(const char *cert, const char *key, struct pb_err *err);

/* worker.c: starts the thread that answers; -1 when there is none to be had. */
int pb_conn_answer(struct pb_conn *c);
/* From the loop: nobody reads the answer any more. */
void pb_conn_abandon(struct pb_conn *c);

/* reply.c */
/* A whole small answer for a request that no route sees; also ends a broken one. */
void pb_conn_refuse(struct pb_conn *c, int status, const char *code, const char *message,
                    const char *header);
int pb_conn_send(struct pb_conn *c, const void *data, size_t len);
/* As pb_reply_break, from another thread than the request's: what does not fit at once is lost. */
void pb_conn_break(struct pb_conn *c, const struct pb_err *err);

/* listener.c */
int pb_listener_open_unix(struct pb_server *s, const char *path, struct pb_err *err);
/* Takes over the TCP listeners of a server that died. */
void pb_listeners_inherit(struct pb_server *s);
/* Closes the listeners whose owners are all gone; true while there are any with owners. */
bool pb_listeners_review(struct pb_server *s);
void pb_listener_close(struct pb_listener *l);
/*
 * The processes that a caller reaches through a listener, "12-34,56-78", in the arena: those that
 * opened it, as far as the token is for them. NULL: all of the user's; "": none.
 */
char *pb_listener_reach(struct pb_server *s, const struct pb_listener *l,
                        const struct pb_caller *who, struct pb_arena *a);
/* Whose token has this hash? Fills the caller. The loop's thread. */
bool pb_listener_accepts(struct pb_server *s, const struct pb_listener *l,
                         const char hash[PB_SHA256_TEXT], struct pb_caller *ret);
/* The key of this name among those that open the listener, and its token's hash. The loop's. */
bool pb_listener_key(struct pb_server *s, const struct pb_listener *l, const char *id,
                     struct pb_key *ret, char ret_hash[PB_SHA256_TEXT]);
/* listener_names.c: names under which a proxy leads here. */
bool pb_listener_has_name(struct pb_server *s, const struct pb_listener *l, const char *name);
/* Called with the server's lock held. */
void pb_listener_add_name(struct pb_listener *l, const char *name);
/* NULL is none, and good. */
int pb_listener_check_name(const char *name, struct pb_err *err);
/* "10.0.0.3:51512" */
void pb_address_text(const struct sockaddr_storage *at, char *buf, size_t cap);
/* The address that a text means, the first of the fourth version, else the first; and its host. */
int pb_address_resolve(const char *address, char *host, struct sockaddr_storage *ret,
                       socklen_t *ret_len, struct pb_err *err);
/* A socket that listens there; text: the address for the error. */
int pb_address_bind(const struct sockaddr_storage *at, socklen_t len, const char *text,
                    struct pb_err *err);

#endif
