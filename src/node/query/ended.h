/*
 * ended.h - processes that are gone and left tables behind, in rings or in files.
 *
 * Owns: nothing; everything goes into the caller's arena.
 * Threads: any.
 * Fails: when a folder cannot be read.
 * Not here: how they are shown (cli/target/dead.c), their rows (SQL).
 */
#ifndef PB_NODE_QUERY_ENDED_H
#define PB_NODE_QUERY_ENDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/arena.h"

struct pb_ended {
    const char *id, *host, *python, *command; /* the last two NULL when only files are left */
    int64_t rank;     /* -1: unknown */
    int64_t ended_ns; /* 0: unknown */
    bool later;       /* ended_ns is the last row, or the removal of the probes: it ended after */
    const char *how;  /* "SIGKILL", "exit 1"; NULL: unknown */
    size_t tables;
    const char **names; /* names of the tables */
    uint64_t rows;
};

struct pb_ended_list {
    struct pb_arena *arena;
    struct pb_ended *v; /* the last that ended first */
    size_t n, cap;
};

/*
 * Reads the list of ended processes of this machine, or of a copied folder; data_dir holds the
 * history. No node need run.
 */
int pb_ended_read(struct pb_ended_list *ret, const char *store_dir, const char *data_dir,
                  struct pb_arena *a, struct pb_err *err);

#endif
