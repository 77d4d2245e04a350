/*
 * keeper.h - listening sockets that outlive the server that opened them.
 *
 * Owns: in the supervisor, a copy of each socket and of what the server knows about it; a server
 * inherits them when it is started.
 * Threads: put and drop from any thread of the server; the rest from the supervisor's only one.
 * Fails: put quietly: that socket ends with its server.
 * Not here: what is known about a socket (http/listener.c).
 */
#ifndef PB_NODE_KEEPER_H
#define PB_NODE_KEEPER_H

#include <stddef.h>

enum { PB_KEEPER_SLOTS = 32 };

struct pb_keeper;

/* NULL when there is no memory. Every other call but fd() takes NULL for "nobody keeps any". */
struct pb_keeper *pb_keeper_create(void);
void pb_keeper_destroy(struct pb_keeper *k);

/* By the server: a socket of its, with bytes that the next one will need. */
void pb_keeper_put(struct pb_keeper *k, int slot, int fd, const void *state, size_t len);
void pb_keeper_drop(struct pb_keeper *k, int slot);

/* By the supervisor: becomes readable when a server said something; pump hears it. */
int pb_keeper_fd(const struct pb_keeper *k);
void pb_keeper_pump(struct pb_keeper *k);
/* By the supervisor, before it starts one: this descriptor, which is the keeper's from now on. */
void pb_keeper_hold(struct pb_keeper *k, int slot, int fd);

/* By a server that was just started: its descriptor, or -1; *ret_state stays the keeper's. */
int pb_keeper_get(const struct pb_keeper *k, int slot, const void **ret_state, size_t *ret_len);

#endif
