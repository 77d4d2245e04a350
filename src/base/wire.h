/*
 * wire.h - what the tool and the agent say to each other.
 *
 * Owns: nothing; layouts and limits only.
 * Threads: any.
 * Fails: never. Whoever reads a message checks it against the limits here and
 * closes the connection on the first one that does not fit.
 * Not here: sockets (agent/control.h inside the target, host/net/agent_socket.h outside).
 *
 * One Unix stream socket per agent, in the target's own folder (mode 0700):
 *     <dir>/probing-<uid>/<pid>-<starttime>/control
 * with <dir> the first of /dev/shm, /tmp that the agent can write to, pid as
 * the target itself sees it, starttime the 22nd field of /proc/PID/stat. From
 * outside a container the same path is reached below /proc/PID/root.
 *
 * A message is a head and `len` bytes of payload. Texts are UTF-8 without a
 * terminator. The tool asks, the agent answers with any number of OUT and ERR
 * and then one DONE, all carrying the id of the question. Integers are in the
 * machine's byte order: both ends run on one machine.
 */
#ifndef PB_BASE_WIRE_H
#define PB_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PB_WIRE_MAGIC 0x31474250u /* "PBG1": head layout 1 */
#define PB_WIRE_VERSION 2 /* 2: CLIENT is known */
/* A question: a script on stdin may be long. An answer is cut into pieces. */
#define PB_WIRE_MAX (16u << 20)
#define PB_WIRE_PIECE (64u << 10)
/* Bytes of a client's name, the zero behind it included. */
#define PB_WIRE_CLIENT_NAME 128

/* X(name, number, who sends it, payload) */
#define PB_WIRE_TYPES(X)                                                                         \
    X(HELLO, 1, "agent", "key=value lines: agent, pid, python, state; sent on connect")          \
    X(EVAL, 2, "tool", "struct pb_wire_eval, then the code")                                     \
    X(INTERRUPT, 3, "tool", "nothing; stops the evaluation with the same id")                    \
    X(COMPLETE, 4, "tool", "text in front of the cursor; answered by OUT, a candidate a line")   \
    X(CONFIG, 5, "tool", "lines: `key` reads, `key=value` sets, nothing lists all")              \
    X(EJECT, 6, "tool", "nothing; the agent stops all it does and closes")                       \
    X(STATUS, 7, "tool", "nothing; answered by OUT with key=value lines")                        \
    X(CLIENT, 8, "tool", "key=value lines: uid, pid, name: who asks through a node; comes first")  \
    X(OUT, 16, "agent", "bytes for stdout")                                                      \
    X(ERR, 17, "agent", "bytes for stderr")                                                      \
    X(DONE, 18, "agent", "struct pb_wire_done, then one line saying what failed, if anything")

enum pb_wire_type {
#define X(name, number, who, payload) PB_WIRE_##name = number,
    PB_WIRE_TYPES(X)
#undef X
};

struct pb_wire_head {
    uint32_t magic;
    uint16_t type;
    uint16_t flags; /* 0 */
    uint32_t id;    /* chosen by the tool; the same in the answers */
    uint32_t len;   /* bytes that follow */
};

enum pb_wire_eval_flags {
    PB_WIRE_MAIN = 1,   /* on the main thread, at its next safe point */
    PB_WIRE_FRAME = 2,  /* with the variables of a frame */
    PB_WIRE_REPL = 4,   /* one interactive statement: keep `_`, answer "more" when incomplete */
    PB_WIRE_OWN = 8,    /* the tool's own script: not in __main__, with the agent's functions */
    PB_WIRE_NAMED = 16, /* with FRAME: a function's name and a zero byte stand before the code */
    PB_WIRE_FLAGS = 31, /* all of them */
};

struct pb_wire_eval {
    uint32_t flags;
    uint32_t timeout_ms; /* 0: the setting eval.timeout */
    int32_t frame;       /* 0 = innermost; unused with PB_WIRE_NAMED */
    int32_t tid;         /* whose frame, as the target sees its threads; 0: main thread */
};

enum { PB_WIRE_FRAME_NAME_MAX = 255 }; /* bytes; what the tool sends */

/* How a question ended. */
enum pb_wire_result {
    PB_WIRE_OK = 0,
    PB_WIRE_EXCEPTION = 1, /* the code raised; the traceback went to ERR */
    PB_WIRE_REFUSED = 2,   /* the question made no sense; the line says why */
    PB_WIRE_NO_GIL = 3,    /* the interpreter did not let the agent in before the timeout */
    PB_WIRE_EXPIRED = 4,   /* the code was still running at the timeout and was interrupted */
    PB_WIRE_INTERRUPTED = 5,
    PB_WIRE_MORE = 6,      /* REPL: the statement is not complete yet */
};

struct pb_wire_done {
    uint32_t result;
    uint32_t reserved;
};

/*
 * A message on its way in. The owner reads from its socket into what
 * pb_wire_buffer names and reports with pb_wire_received; the memory for a body is
 * the owner's too. Start zeroed, and with pb_wire_next after each message.
 */
struct pb_wire_in {
    struct pb_wire_head head;
    size_t got;          /* bytes of head and body so far */
    unsigned char *body; /* set when PB_WIRE_BODY asks for head.len bytes */
};

enum pb_wire_step {
    PB_WIRE_MORE_BYTES,
    PB_WIRE_BODY,    /* the head is good: give memory for the body */
    PB_WIRE_MESSAGE, /* complete */
    PB_WIRE_BAD,     /* close the connection */
};

void *pb_wire_buffer(struct pb_wire_in *in, size_t *ret_len);
/* from_tool: the messages that a tool sends are fine, else those of an agent. */
enum pb_wire_step pb_wire_received(struct pb_wire_in *in, size_t n, bool from_tool);
void pb_wire_next(struct pb_wire_in *in);

_Static_assert(sizeof(struct pb_wire_head) == 16, "head layout");
_Static_assert(sizeof(struct pb_wire_eval) == 16, "eval layout");
_Static_assert(sizeof(struct pb_wire_done) == 8, "done layout");

#endif
