/*
 * crash.h - what happens in a process that crashes, before it ends as it would have.
 *
 * Owns: the actions for five signals, as long as nobody else has changed them; a page of the
 * process's folder; memory for one report.
 * Threads: as said. The handler may run in any thread, at any instruction: it takes no lock,
 * allocates nothing and waits at most PB_CRASH_WAIT_MS.
 * Fails: without a report; the earlier action follows in any case.
 * Not here: reading the stacks, which a process outside does (cli/crash/crash_take.h).
 *
 *   fault -> record -> start `probing crashes --take` -> wait for its word -> earlier action
 *
 * A stack that has overflown has no room for a handler: it needs a stack of its own, which each
 * thread must ask the kernel for itself. The main thread gets one, and each thread that Python's
 * threading starts from then on. A thread that was there before, or that C code starts, has none;
 * there, an overflown stack ends the process without a record, as it would have ended anyway.
 */
#ifndef PB_AGENT_COLLECTORS_CRASH_CRASH_H
#define PB_AGENT_COLLECTORS_CRASH_CRASH_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/core/self.h"
#include "store/crash.h"

enum {
    PB_CRASH_SIGNALS = 5,
    PB_CRASH_CHILD_STACK = 16 << 10,
    PB_CRASH_ARG_MAX = 48,
};

struct pb_crash_state {
    struct sigaction before[PB_CRASH_SIGNALS]; /* handlers of the program, valid where ours[i] */
    bool ours[PB_CRASH_SIGNALS];
    _Atomic bool armed;
    struct pb_crash_record record;    /* the report, at an address that the reader is told */
    struct pb_crash_record *page;     /* copy of the report in the folder of the process, or NULL */
    pid_t page_pid;                   /* process whose folder holds `page` */
    _Atomic int busy;                 /* thread that reports; 0: none */
    _Atomic uint64_t last_ns;         /* when the last report ended */
    _Atomic int reports;              /* count of reports of this process */
    char tool[PB_SETTING_VALUE_MAX];  /* path of the program that reads the process */
    char data[PB_SETTING_VALUE_MAX + 16]; /* environment of that program: PROBING_HOME=…, or "" */
    /* For the child that starts the program; it runs on child_stack until exec. */
    char argument[PB_CRASH_ARG_MAX];
    int ack[2];
    _Atomic int child_tid; /* 1 while the child shares our memory; the kernel clears it */
    _Alignas(64) char child_stack[PB_CRASH_CHILD_STACK];
    /* Objects of the interpreter, used with the GIL held. */
    struct _object *glue;
    struct _object *bootstrap; /* threading.Thread._bootstrap as it was */
    bool threads;              /* whether the hooks of threading are installed */
};

/* NULL before the first start. Any thread, also in a handler. */
struct pb_crash_state *pb_crash_state(struct pb_self *self);

/* handler.c: any thread. Takes over the signals; gives back those that are still ours. */
void pb_crash_arm(struct pb_crash_state *s);
void pb_crash_disarm(struct pb_crash_state *s);

/* report.c: async-signal-safe; the record is filled. False: nobody read it in time. */
bool pb_crash_report(struct pb_crash_state *s);
/* Head, time and where the training is; the rest is the caller's. Async-signal-safe. */
void pb_crash_fill(struct pb_self *self, struct pb_crash_state *s, enum pb_crash_kind kind);

/* altstack.c: the calling thread gets a stack for handlers, unless it has one. */
void *pb_crash_altstack_set(void);
/* Gives back what pb_crash_altstack_set returned; by the same thread. */
void pb_crash_altstack_drop(void *stack);

/* hooks.c: GIL held. 0, or -1 with the reason. */
int pb_crash_hooks_enter(struct pb_self *self, struct pb_crash_state *s, struct pb_err *err);
/* threading may be imported later than we come. */
void pb_crash_hooks_poll(struct pb_self *self, struct pb_crash_state *s);
void pb_crash_hooks_leave(struct pb_self *self, struct pb_crash_state *s);

#endif
