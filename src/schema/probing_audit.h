/*
 * probing_audit.h - the columns of probing.audit.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PROBING_AUDIT_H
#define PB_SCHEMA_PROBING_AUDIT_H

#define PB_PROBING_AUDIT_NAME "probing.audit"
#define PB_PROBING_AUDIT_DOC "what was run or changed in the process through the tool, and by whom"

/* X(column, type, unit, doc) */
#define PB_PROBING_AUDIT(X)                                                                       \
    X(timestamp, TIME, "", "when it was asked for")                                               \
    X(action, NAME, "", "eval, config, eject; of a node login: a token that was refused")         \
    X(peer_uid, INT, "", "user who asked, if it was on this machine")                             \
    X(peer_pid, INT, "", "process that asked, if it was on this machine")                         \
    X(client, TEXT, "", "address and token of whoever asked over TCP")                            \
    X(detail, TEXT, "", "the code without secrets (setting audit.eval), or the setting and value") \
    X(result, NAME, "", "ok, error, refused, timeout")                                            \
    X(ms, REAL, "ms", "how long it took")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PROBING_AUDIT)
#endif
