/*
 * outbox.h - messages to one client, in a circle of fixed size.
 *
 * Owns: its bytes.
 * Threads: any; called with self->lock held.
 * Fails: a message that does not fit is refused whole.
 * Not here: the socket.
 */
#ifndef PB_AGENT_OUTBOX_H
#define PB_AGENT_OUTBOX_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/core/self.h"
#include "agent/server.h"

/* Puts a head, a first part and a second in; reserve bytes must stay free behind them. */
bool pb_outbox_put(struct pb_outbox *o, enum pb_wire_type type, uint32_t id, const void *first,
                   size_t first_len, const void *second, size_t second_len, size_t reserve);
/* Sends what the socket takes. False when the other side is gone. */
bool pb_outbox_send(struct pb_outbox *o, int fd);

#endif
