/*
 * stop.h - holding one thread of the target for an instant.
 *
 * Owns: the ptrace attachment to that thread, from begin to end.
 * Threads: the caller's thread is the tracer; begin and end on the same one.
 * Fails: with a reason code; the thread then runs on as before.
 * Not here: what is read while it is held (capture.h), staying on the CPU
 * meanwhile (priority.h: call that around a stop).
 *
 * SEIZE and INTERRUPT, never SIGSTOP: the process is not signalled, its parent
 * does not notice, and if this tool dies the kernel lets the thread go.
 * A stop that lands in a system call which the kernel would end with EINTR
 * (epoll_wait, semop, receiving with a time limit…) is turned into a restart
 * of that call, so the program does not see it.
 */
#ifndef PB_STACK_STOP_STOP_H
#define PB_STACK_STOP_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stack/stop/priority.h"

enum { PB_TRACER_LATE = 64 };

enum pb_stop_result {
    PB_STOP_OK,
    PB_STOP_BLOCKED, /* it went to sleep in the meantime: read it without a stop */
    PB_STOP_GONE,
    PB_STOP_DENIED,  /* traced by another process, or not permitted */
    PB_STOP_TIMEOUT, /* it sleeps where nothing can wake it, or has had no CPU for long */
};

/*
 * A thread of this tool that stops threads of others: the kernel ties both together, so that one is
 * used by one thread only, and what it holds is released when that thread ends. Starts zeroed.
 */
struct pb_tracer {
    struct pb_priority priority; /* raised around a stop */
    pid_t late[PB_TRACER_LATE];  /* given up while they were still seized; they stop one day */
    size_t nlate;
    pid_t rival; /* another tracer, that has not released a thread in time */
};

struct pb_stop {
    struct pb_tracer *by;
    pid_t tid;
    bool seized, stopped;
    int signal;     /* a signal that arrived first; handed on at the end */
    uint64_t since; /* the last time it was seen running, ns */
};

/*
 * Begins a stop. Unless even_blocked, a thread that turns out to sleep in a
 * system call is left alone.
 */
enum pb_stop_result pb_stop_begin(struct pb_stop *s, struct pb_tracer *by, pid_t pid, pid_t tid,
                                  bool even_blocked);
/*
 * The two halves of begin, for stopping many threads at about the same time. Where others are held
 * meanwhile, one that sleeps uninterruptibly or has no CPU is given up sooner.
 */
enum pb_stop_result pb_stop_request(struct pb_stop *s, struct pb_tracer *by, pid_t tid);
enum pb_stop_result pb_stop_await(struct pb_stop *s, bool others_held);
/* Lets the thread go; returns for how long at most it was held, in microseconds. Idempotent. */
double pb_stop_end(struct pb_stop *s);
/*
 * Lets those go that stopped after they had been given up; returns how many have not stopped yet.
 * Begin does it, too; to be called now and then by who goes on without stopping another.
 */
size_t pb_stop_release_abandoned(struct pb_tracer *by);

/* General registers of the held thread as PTRACE_GETREGSET gives them; bytes, or 0. */
size_t pb_stop_registers(const struct pb_stop *s, void *buf, size_t cap);

/* arch/: makes an interrupted call start again where the kernel would give up with EINTR. */
void pb_arch_restart_interrupted(pid_t tid);

#endif
