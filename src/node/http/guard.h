/*
 * guard.h - whether a request may be answered at all, known from its head.
 *
 * Owns: nothing.
 * Threads: the loop's.
 * Fails: says which status, why, and what to do.
 * Not here: reading heads (loop.c), answering (worker.c).
 */
#ifndef PB_NODE_HTTP_GUARD_H
#define PB_NODE_HTTP_GUARD_H

#include "node/http/conn.h"

struct pb_refusal {
    int status;
    const char *code;
    char message[400];
    char header[200]; /* a line to add, with its end; or "" */
    uint64_t wait_ns; /* not now: to be checked again then; 0: refused */
};

/* 0 with c->route set, else -1. */
int pb_guard_check(struct pb_conn *c, struct pb_refusal *ret);
/* A row of probing.audit: whoever is at the other end had a wrong token, or none. */
void pb_guard_note_refused(struct pb_conn *c, const char *detail);

#endif
