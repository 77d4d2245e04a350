/*
 * server.h - clients of the agent and their evaluations.
 *
 * Owns: the listening socket, the clients' connections and the jobs.
 * Threads: fields marked control belong to the agent's thread; what others use is guarded by
 * self->lock, which is held for copies only.
 * Fails: never.
 * Not here: what is done with them (control.h, requests.h, jobs.h).
 */
#ifndef PB_AGENT_SERVER_H
#define PB_AGENT_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/wire.h"

enum {
    PB_CLIENTS = 32,
    PB_JOBS = 16,
    PB_OUTBOX = 256 << 10,
    PB_OUTBOX_RESERVE = 16 << 10, /* kept free of output, so that an answer always fits */
};

/* Bytes for one client, in a circle. */
struct pb_outbox {
    unsigned char *data; /* PB_OUTBOX bytes */
    size_t at, len;
};

struct pb_client {
    int fd;            /* -1: free entry */
    uint32_t serial;   /* number that is never used twice */
    bool gone;         /* to be closed by control */
    bool leaving;      /* asked for the agent's end, and hears of it last */
    uint32_t eject_id; /* message that asked for it */
    bool has_session;  /* the glue keeps `_` for it */
    uid_t uid;         /* whose process it is; of a node, who asks through it; -1: not known */
    pid_t pid;         /* pid of the client; of a node, who asks through it; 0: not known */
    char name[PB_WIRE_CLIENT_NAME]; /* what a node calls who asks through it, or "" */
    bool spoke;        /* has sent a message: too late to say in whose name it asks */
    uint64_t seen_ns;  /* control: last message */
    struct pb_wire_in in;  /* control: message that is coming in */
    size_t body_size;  /* control: bytes of in.body's mapping */
    struct pb_outbox out;
};

enum pb_job_state {
    PB_JOB_FREE,
    PB_JOB_WAITING, /* for the interpreter */
    PB_JOB_ENTERED, /* a thread has it, inside the interpreter */
    PB_JOB_RUNNING, /* may be interrupted */
    PB_JOB_ENDING,
};

struct pb_job {
    enum pb_job_state state;
    uint32_t number; /* number that is never used twice */
    bool answered;   /* the client has its DONE, or is gone: nothing more is sent */
    bool breaking;   /* to be interrupted */
    bool thrown;     /* the exception for that has been thrown */
    enum pb_wire_result verdict; /* reason of the interrupt */
    int tries;       /* to find it where it may be interrupted */
    int met;         /* value of tries when its thread was last met on its way */
    int client;      /* index of the client */
    uint32_t client_serial, id;
    bool complete;   /* a completion, not an evaluation */
    bool audited;
    struct pb_wire_eval how;
    void *map;       /* the message */
    size_t map_size;
    const char *code; /* in the message */
    size_t code_len;
    const char *frame_name; /* function whose frame is meant; NULL: by number */
    size_t frame_name_len;
    uint64_t asked_ns, deadline_ns;
    int64_t asked_wall_ns;
    uid_t peer_uid;
    pid_t peer_pid;
    char peer_name[PB_WIRE_CLIENT_NAME];
    uint64_t printed, print_limit; /* bytes */
    unsigned long ident; /* the evaluating thread, as Python calls it */
};

struct pb_server {
    int listener;    /* control; -1: none */
    struct pb_client clients[PB_CLIENTS];
    struct pb_job jobs[PB_JOBS];
    uint32_t serial; /* last number given to a client or job */
    uint32_t left[PB_CLIENTS]; /* clients whose `_` is to be forgotten */
    int left_count;
    uint64_t served; /* evaluations so far */
};

#endif
