/*
 * scope.h - which processes a query covers.
 *
 * Owns: nothing; a scope lives in the caller's arena.
 * Threads: any; const once made.
 * Fails: PB_NO_TARGET when a target names no process, living or dead.
 * Not here: finding stores (discover.h).
 *
 * A process is known by "<pid>-<starttime>", so that a pid which was used again is another
 * process; one of another user also by its uid, so that nobody's rows pass for somebody else's.
 * Inside SQL the scope of a connection is the variable `scope`: NULL for all, else a list of such
 * texts.
 */
#ifndef PB_NODE_SCOPE_H
#define PB_NODE_SCOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"

enum { PB_PROCESS_ID_MAX = 48 };

struct pb_scope_process {
    pid_t pid; /* pid in this machine's numbers */
    uint64_t start; /* clock ticks since boot: field 22 of /proc/PID/stat */
    bool live;
    /* "<pid>-<start>", of another user "<pid>-<start>-<uid>"; in a container, the pid inside */
    char id[PB_PROCESS_ID_MAX];
    int64_t since_ns; /* when it started, since 1970; rows about an older pid are not its own */
    int64_t until_ns; /* when a dead one was last seen; INT64_MAX for a living one */
};

struct pb_agent_client;

/* What a question covers. What is withheld comes from the token of whoever asks. */
struct pb_scope {
    bool all;    /* living and ended, and what the node says of itself */
    bool living; /* no target: the processes are all that live, and what the node says of itself */
    const struct pb_scope_process *processes;
    size_t nprocesses;
    bool no_look;    /* neither local variables nor environments */
    bool no_control; /* settings stay as they are */
    bool bounded;    /* to these processes: the node itself is out of reach */
    const struct pb_agent_client *client; /* for the audit; NULL: the node itself */
};

/* No target was given: it is about the node as a whole. */
bool pb_scope_is_node(const struct pb_scope *s);
bool pb_scope_has_id(const struct pb_scope *s, const char *id);

#endif
