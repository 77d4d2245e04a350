/*
 * server.h - the node's front door: HTTP on a Unix socket and, when asked, on TCP.
 *
 * Owns: listeners, connections and their threads (at most PB_SERVER_BUSY at once).
 * Threads: its own; calls below from any.
 * Fails: a client that is slow, sends too much or speaks nonsense is answered and closed; it
 * never holds up another.
 * Not here: what a route answers (routes.def and one file each), HTTP itself (host/http.h).
 *
 * Who may: on the Unix socket the owner and root, by kernel credentials. On TCP whoever has the
 * token; without one only if the listener was opened with no_token. A request that a browser
 * sent from another site (Origin, Host) is refused; GET changes nothing.
 */
#ifndef PB_NODE_HTTP_SERVER_H
#define PB_NODE_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct pb_node;
struct pb_server;

int pb_server_create(struct pb_server **ret, struct pb_node *node, const char *socket_path,
                     struct pb_err *err);
void pb_server_destroy(struct pb_server *s);
/*
 * Opens a TCP listener, "host:port", ":port" or "port" (loopback), once for each address; asking
 * again adds the owner. owner: "<pid>-<start>" of the process it belongs to: it closes when the
 * last owner is gone, and its queries cover the owners unless they say otherwise. NULL: the node's
 * own. ret_bound: "0.0.0.0:8080" as bound (port 0 picks one).
 */
int pb_server_listen(struct pb_server *s, const char *address, const char *owner, bool no_token,
                     char *ret_bound, size_t cap, struct pb_err *err);
/* The same with a token of the caller's own; NULL: the token of this user. */
struct pb_listen {
    const char *address, *owner, *token;
    bool no_token;
};
int pb_server_open(struct pb_server *s, const struct pb_listen *w, char *ret_bound, size_t cap,
                   struct pb_err *err);
/* Requests being answered now, when the last one ended (monotonic ns), and TCP listeners open. */
void pb_server_activity(struct pb_server *s, int *ret_active, uint64_t *ret_last_ns,
                        int *ret_listeners);

/*
 * The token of this user: $PROBING_TOKEN, else the file <config>/probing/token (mode 0600; made
 * at first use when `make`), <config> being $XDG_CONFIG_HOME or ~/.config. buf: 80 bytes.
 */
int pb_token_read(char *buf, size_t cap, bool make, struct pb_err *err);
/* Can it be one: 8 to 79 printable characters without blanks? */
int pb_token_check(const char *token, struct pb_err *err);

#endif
