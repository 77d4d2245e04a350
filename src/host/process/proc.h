/*
 * proc.h - what /proc says of processes and threads.
 *
 * Owns: nothing; strings go into the caller's arena.
 * Threads: any.
 * Fails: with PB_NO_TARGET when the process is gone, PB_DENIED when the kernel
 * says no. Messages begin with the pid: "4242: no such process".
 * Not here: memory (mem.h), address space (maps.h), what Python does.
 */
#ifndef PB_HOST_PROCESS_PROC_H
#define PB_HOST_PROCESS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"

/* Fields of /proc/PID/stat, for a process or a thread. */
struct pb_proc_stat {
    pid_t pid, ppid;
    char state;     /* R S D T t Z X I */
    unsigned flags; /* PF_* of the kernel */
    char comm[64];
    uint64_t utime, stime; /* clock ticks */
    uint64_t start_time;   /* clock ticks since boot */
    uint64_t code, stack;  /* where its program and its first stack begin: exec changes them */
    long threads;
};

struct pb_proc_status {
    uid_t uid, euid, suid;
    gid_t egid;
    pid_t tgid; /* the process, when pid names one of its threads */
    pid_t tracer;
    pid_t ns_pid; /* pid in its innermost namespace; equals pid outside containers */
    int seccomp;
    uint64_t caught; /* signals with a handler: bit 0 is signal 1 */
    uint64_t rss_kb;
};

/* What a thread is blocked in, from /proc/PID/task/TID/syscall and wchan. */
struct pb_proc_wait {
    bool blocked; /* false: running, or not readable */
    bool readable;
    long nr; /* system call number; -1 blocked outside a system call */
    uint64_t args[6];
    uint64_t sp, pc;
};

/* tid 0 asks for the process as a whole, here and below. */
int pb_proc_stat(struct pb_proc_stat *ret, pid_t pid, pid_t tid, struct pb_err *err);
int pb_proc_status(struct pb_proc_status *ret, pid_t pid, struct pb_err *err);
void pb_proc_wait(struct pb_proc_wait *ret, pid_t pid, pid_t tid);
/* How often the thread was given a CPU, and for how long; changes when it ran. */
bool pb_proc_schedstat(pid_t pid, pid_t tid, uint64_t *ret_runs, uint64_t *ret_ns);
/* Kernel function the thread sleeps in, "" when unknown. */
void pb_proc_wchan(char *buf, size_t cap, pid_t pid, pid_t tid);
/* Name of a system call on this architecture, NULL when unknown. */
const char *pb_proc_syscall_name(long nr);
/* The letter of a state as people say it: "running", "waiting", "disk", "stopped", "ended". */
const char *pb_proc_state_name(char state);

/* Thread ids in ascending order; returns the count, or -1. */
int pb_proc_threads(pid_t pid, struct pb_arena *a, pid_t **ret, struct pb_err *err);
/* All process ids in ascending order; returns the count, or -1. */
int pb_proc_pids(struct pb_arena *a, pid_t **ret, struct pb_err *err);

/* NUL-separated contents of cmdline or environ; NULL when not readable. */
char *pb_proc_read(pid_t pid, const char *name, struct pb_arena *a, size_t *ret_len);
/* The command line with spaces between arguments, fit for one line of output. */
char *pb_proc_command(pid_t pid, struct pb_arena *a);
/* Value of an environment variable at exec time, or NULL. */
char *pb_proc_getenv(const char *environ_block, size_t len, const char *name);
/* A uid as the user namespace of a process has it; the same outside of such namespaces. */
uid_t pb_proc_inner_uid(pid_t pid, uid_t outside);
/* User name of a uid, or its number. */
char *pb_proc_user(uid_t uid, struct pb_arena *a);

/*
 * May this user read the target's memory? 0 yes; otherwise err says why not and
 * what would help: no such process, zombie, kernel thread, other user, Yama,
 * missing capability, not dumpable, 32-bit. command_hint is the command line to
 * offer after "sudo", e.g. "probing 1 backtrace"; NULL for none.
 */
int pb_proc_check_access(pid_t pid, const char *command_hint, struct pb_err *err);

#endif
