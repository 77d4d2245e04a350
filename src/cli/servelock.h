/*
 * servelock.h - one node for a data folder: its folders and the lock that says who serves it.
 *
 * Owns: nothing; the caller keeps the descriptor, and the lock with it.
 * Threads: one.
 * Fails: with what is in the way and what to do about it.
 * Not here: reading the lock (nodestart.h).
 */
#ifndef PB_CLI_SERVELOCK_H
#define PB_CLI_SERVELOCK_H

#include "cli/cmd.h"
#include "cli/nodestart.h"

int pb_servelock_folder(const char *path, struct pb_err *err);
int pb_servelock_socket_folder(const char *socket, struct pb_err *err);
/* 0: locked, *ret is the descriptor; 1: another node of this version serves; -1: failed. */
int pb_servelock_take(struct pb_ctx *ctx, const struct pb_nodeplace *place, int *ret);
void pb_servelock_write(int lock, const struct pb_nodelock *text);

#endif
