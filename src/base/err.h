/*
 * err.h - errors that carry their context to the edge.
 *
 * Owns: nothing; a struct pb_err is the caller's memory.
 * Threads: any, one object per thread.
 * Fails: never; a message that is too long is cut.
 * Not here: printing. Only the command line, an HTTP reply or the agent's
 * status turns an error into text.
 *
 * The first cause wins: pb_err_set on an error that is already set changes
 * nothing. Each layer may put what it was doing in front with pb_err_prefix.
 */
#ifndef PB_BASE_ERR_H
#define PB_BASE_ERR_H

/* X(name, exit code, meaning) */
#define PB_CODES(X)                                                            \
    X(OK, 0, "done")                                                           \
    X(FAIL, 1, "the target, the SQL or the code failed")                       \
    X(USAGE, 2, "wrong usage")                                                 \
    X(DENIED, 3, "not permitted")                                              \
    X(NO_TARGET, 4, "no such target")                                          \
    X(TIMEOUT, 5, "timed out")

enum pb_code {
#define X(name, value, text) PB_##name = value,
    PB_CODES(X)
#undef X
};

struct pb_err {
    enum pb_code code;
    char msg[480];
};

/* Both return -1, so that a failing function can end with `return pb_err_set(…)`. */
int pb_err_set(struct pb_err *err, enum pb_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int pb_err_prefix(struct pb_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
