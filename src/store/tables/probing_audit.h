/*
 * probing_audit.h - the columns of probing.audit.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collect/).
 */
#ifndef PB_STORE_TABLES_PROBING_AUDIT_H
#define PB_STORE_TABLES_PROBING_AUDIT_H

#define PB_PROBING_AUDIT_NAME "probing.audit"
#define PB_PROBING_AUDIT_DOC "what was run or changed in the process through the tool, and by whom"

/* X(column, type, unit, doc) */
#define PB_PROBING_AUDIT(X)                                                                       \
    X(timestamp, TIME, "", "when it was asked for")                                               \
    X(action, NAME, "", "eval, config, eject")                                                    \
    X(peer_uid, INT, "", "user who asked")                                                        \
    X(peer_pid, INT, "", "process that asked")                                                    \
    X(detail, TEXT, "", "the code, or the setting and its value")                                 \
    X(result, NAME, "", "ok, error, refused, timeout")                                            \
    X(ms, REAL, "ms", "how long it took")

#endif
