/*
 * lock.h - one node for a data folder: its folders and the lock that says who serves it.
 *
 * Owns: nothing; the caller keeps the descriptor, and the lock with it.
 * Threads: one.
 * Fails: with what is in the way and what to do about it.
 * Not here: reading the lock (serve.h).
 */
#ifndef PB_NODE_SERVE_LOCK_H
#define PB_NODE_SERVE_LOCK_H

#include "node/serve/serve.h"

int pb_serve_data_folder(const char *path, struct pb_err *err);
int pb_serve_socket_folder(const char *socket, struct pb_err *err);
/* 0: locked, *ret is the descriptor; 1: another node of this version serves; -1: failed. */
int pb_serve_lock_acquire(const struct pb_serve_paths *paths, int *ret, struct pb_err *err);
void pb_serve_lock_write(int lock, const struct pb_serve_lock *text);

#endif
