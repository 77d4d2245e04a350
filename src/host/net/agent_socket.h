/*
 * agent.h - talking to the agent inside a process, from outside.
 *
 * Owns: one connection.
 * Threads: one; pb_agent_interrupt may be called from a signal handler.
 * Fails: with a reason; every wait has a deadline.
 * Not here: loading the agent (inject/inject.h), the messages (base/wire.h).
 */
#ifndef PB_HOST_NET_AGENT_SOCKET_H
#define PB_HOST_NET_AGENT_SOCKET_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/wire.h"
#include "host/text/arena.h"

struct pb_agent {
    int fd;
    uint32_t next_id;
    volatile sig_atomic_t asking;   /* 0 no, 1 the question is being sent, 2 it is out */
    volatile sig_atomic_t interrupt; /* wanted while the question was being sent */
    char hello[1024]; /* the lines of HELLO */
};

/* Does an agent listen in this process? A socket that exec left behind does not count. */
bool pb_agent_present(pid_t pid);
/* The agent's own thread, which carries its name; 0: there is none. */
pid_t pb_agent_thread(pid_t pid, struct pb_arena *a);
/*
 * Connects and reads HELLO; sweeps up after killed processes on the way.
 * PB_NO_TARGET when there is no agent in the process.
 */
int pb_agent_open(struct pb_agent *a, pid_t pid, int timeout_ms, struct pb_err *err);
/*
 * The same over a connection that somebody else made (a node's tunnel); fd is owned from now on,
 * closed on failure.
 */
int pb_agent_adopt(struct pb_agent *a, int fd, int timeout_ms, struct pb_err *err);
void pb_agent_close(struct pb_agent *a);

#define PB_AGENT_ANSWER_MAX (1u << 20)

/* What arrives while a question is answered; fd 1 or 2. */
typedef void pb_agent_sink(int fd, const void *data, size_t len, void *arg);

/*
 * Asks and waits for DONE, at most timeout_ms (0: no limit). Returns 0 with
 * *ret_result and, when the agent gave a reason, *ret_why in the arena. What
 * is answered to any question but EVAL is at most PB_AGENT_ANSWER_MAX bytes.
 */
int pb_agent_ask(struct pb_agent *a, enum pb_wire_type type, const void *head, size_t head_len,
                 const void *body, size_t body_len, int timeout_ms, pb_agent_sink *sink, void *arg,
                 struct pb_arena *arena, enum pb_wire_result *ret_result, const char **ret_why,
                 struct pb_err *err);
/* Value of a key=value line of HELLO or STATUS, in the arena; NULL when there is none. */
char *pb_agent_value(const char *lines, const char *key, struct pb_arena *arena);
/*
 * How long an evaluation may take when nobody says: the setting eval.timeout of the process, as its
 * HELLO gives it, within what that setting may be.
 */
int pb_agent_eval_ms(const struct pb_agent *a);
/* Sends INTERRUPT for the question that is being answered. Safe in a signal handler. */
void pb_agent_interrupt(struct pb_agent *a);

#endif
