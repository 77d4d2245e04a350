/*
 * secret.h - is this a secret?
 *
 * Owns: nothing; text goes into the caller's arena.
 * Threads: any.
 * Fails: never; in doubt it is one.
 * Not here: where values come from.
 */
#ifndef PB_NODE_TABLES_SECRET_H
#define PB_NODE_TABLES_SECRET_H

#include "host/arena.h"

/* The value as it may be shown: itself, "***", or a URL without its password. */
const char *pb_secret_mask(const char *name, const char *value, struct pb_arena *a);

#endif
