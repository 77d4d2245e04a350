/*
 * audit.h - probing.audit: what was run or changed in this process through the tool, and by whom.
 *
 * Owns: nothing; the ring is the framework's.
 * Threads: any.
 * Fails: never; without a ring nothing is written.
 * Not here: doing what was asked (jobs.h, requests.h).
 */
#ifndef PB_AGENT_COLLECTORS_AUDIT_H
#define PB_AGENT_COLLECTORS_AUDIT_H

#include "agent/collectors/state.h"
#include "agent/core/self.h"

struct pb_audit {
    const char *action, *result;
    uid_t uid; /* -1: not known */
    pid_t pid;
    const char *client; /* who asked through a node, or "" */
    int64_t wall_ns;   /* when it was asked for */
    uint64_t asked_ns; /* monotonic time at which it was asked for */
    const char *detail;
    size_t detail_len; /* cut at 2 KB */
    bool code;         /* detail is code: the setting audit.eval says how much of it is kept */
};

/* Makes the ring, so that writing has no files to work on. */
void pb_audit_prepare(struct pb_self *self);
void pb_audit_write(struct pb_self *self, const struct pb_audit *a);

#endif
