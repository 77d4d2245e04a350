/*
 * server.h - the node's front door: HTTP on a Unix socket and, when asked, on TCP.
 *
 * Owns: listeners, connections and their threads (at most PB_SERVER_BUSY at once).
 * Threads: its own; calls below from any.
 * Fails: a client that is slow, sends too much or speaks nonsense is answered and closed; it
 * never holds up another.
 * Not here: what a route answers (routes.def and one file each), HTTP itself (host/net/http.h).
 *
 * Who may: on the Unix socket the owner and root, by kernel credentials. On TCP whoever has a
 * token, as far as its scope and reach go: proven by TLS (handshake.c), or on this machine in a
 * header; without one only if the listener was opened with no_token. A request that a browser sent
 * from another site (Origin, Host) is refused; GET changes nothing.
 */
#ifndef PB_NODE_HTTP_SERVER_H
#define PB_NODE_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "node/access/token.h"

struct pb_node;
struct pb_server;
struct pb_peers_port;

/* Was it built with the page? */
bool pb_server_has_page(void);
/* socket_path: NULL for a server on TCP alone. */
int pb_server_create(struct pb_server **ret, struct pb_node *node, const char *socket_path,
                     struct pb_err *err);
void pb_server_destroy(struct pb_server *s);
/* The Unix socket alone, for a keeper: a descriptor that listens under that name, or -1. */
int pb_server_bind(const char *socket_path, struct pb_err *err);
/*
 * Opens a TCP listener, "host:port", ":port" or "port" (loopback), once for each address; asking
 * again adds the owner. owner: "<pid>-<start>" of the process it belongs to: it closes when the
 * last owner is gone, and nothing but its owners is reached through it. NULL: the node's
 * own. token: the only one that opens it for this owner; NULL: the user's own does. ret_bound:
 * "0.0.0.0:8080" as bound (port 0 picks one).
 */
struct pb_listen {
    const char *address, *owner, *token;
    bool no_token;
    bool plain; /* answer other machines without TLS, too */
    const char *cert, *cert_key; /* files of a certificate, for browsers and curl; or NULL */
    bool brief; /* it alone does not keep an unused node from ending */
    const char *name; /* under which a proxy leads here: a Host that is accepted, too; or NULL */
};
int pb_server_open(struct pb_server *s, const struct pb_listen *w, char *ret_bound, size_t cap,
                   struct pb_err *err);
/*
 * A code that signs a browser in once (session.h), for the user's own token. scope: "read", "look"
 * or "control"; NULL: the most.
 */
int pb_server_ticket(struct pb_server *s, const char *scope, char ret_code[PB_TOKEN_MAX],
                     struct pb_err *err);
/* What a cluster needs of it (node/peers/peers.h). */
void pb_server_port(struct pb_server *s, struct pb_peers_port *ret);
/* Closes one that the node itself opened, as bound; processes that share it keep it open. */
void pb_server_close(struct pb_server *s, const char *bound);
/* Requests answered now, when the last one ended (monotonic ns), and lasting TCP listeners. */
void pb_server_activity(struct pb_server *s, int *ret_active, uint64_t *ret_last_ns,
                        int *ret_listeners);

#endif
