/*
 * inject.h - putting the agent into a running process.
 *
 * Owns: nothing that outlives the call.
 * Threads: the calling thread becomes the tracer for a moment.
 * Fails: with a reason, the target as it was. The tool may be killed at any
 * instant: the code put into the target restores everything by itself.
 * Not here: what the agent does (agent/), talking to it (host/net/agent_socket.h).
 */
#ifndef PB_INJECT_INJECT_H
#define PB_INJECT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct pb_inject_opts {
    const void *library; /* ELF image of the agent */
    size_t library_size;
    const char *entry;   /* function of the library to call, int (*)(const char *options) */
    const char *options; /* "key=value" lines handed to it; at most 4,000 bytes */
    int timeout_ms;      /* for finding a safe moment and for the library to answer */
    bool force;          /* a process under seccomp, too */
};

struct pb_inject_report {
    const char *way; /* "hijacked a thread blocked in futex", "PEP 768", … */
    pid_t tid;       /* thread that was held */
    double pause_us; /* for how long */
    double total_us;
    int attempts;    /* threads that were held */
    int result;      /* what the entry function returned */
};

int pb_inject(pid_t pid, const struct pb_inject_opts *o, struct pb_inject_report *ret,
              struct pb_err *err);

/* For a caller that has no better idea. */
#define PB_INJECT_TIMEOUT_MS 10000

/*
 * The same with the agent that this executable carries. options: "key=value"
 * lines or NULL; timeout_ms 0: PB_INJECT_TIMEOUT_MS.
 */
int pb_inject_agent(pid_t pid, const char *options, int timeout_ms, bool force,
                    struct pb_inject_report *ret, struct pb_err *err);

/* The agent as it is embedded in this executable (payload.S). */
extern const unsigned char pb_payload_start[], pb_payload_end[];

#endif
