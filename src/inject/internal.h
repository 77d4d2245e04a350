/*
 * internal.h - one injection on its way; for the files of inject/ and their tests.
 *
 * Owns: nothing; a struct pb_injection is made and undone by pb_injection_run.
 * Threads: one.
 * Fails: each function with a reason.
 * Not here: what a caller needs (inject.h).
 */
#ifndef PB_INJECT_INTERNAL_H
#define PB_INJECT_INTERNAL_H

#include "host/text/arena.h"
#include "host/process/maps.h"
#include "host/process/mem.h"
#include "inject/block.h"
#include "inject/inject.h"
#include "inject/libc.h"
#include "stack/native/native.h"
#include "stack/stop/stop.h"

/* The instants at which a test may end the tool. */
enum pb_inject_step {
    PB_STEP_PREPARED,
    PB_STEP_CODE,      /* the code lies in the target */
    PB_STEP_HELD,      /* the victim is stopped */
    PB_STEP_FRAME,     /* context lies on its stack */
    PB_STEP_REGISTERS, /* it will run the stub */
    PB_STEP_MASK,      /* its signals are blocked */
    PB_STEP_RELEASED,
    PB_STEP_READY,     /* the new thread waits */
    PB_STEP_LIBRARY,   /* the library is delivered */
    PB_STEP_GO,        /* the library may be loaded */
    PB_STEP_ANSWERED,
    PB_STEPS,
};

#define PB_ROOM_BYTES (128u << 10)

struct pb_inject_hook {
    void (*at)(enum pb_inject_step step, void *arg);
    void *arg;
    bool force_pep768; /* as if no safe moment had been found */
    bool any_program; /* not only Python */
};

struct pb_injection {
    pid_t pid;
    const struct pb_inject_opts *o;
    const struct pb_inject_hook *hook; /* NULL outside of tests */
    struct pb_inject_report *report;
    uint64_t began, deadline; /* ns */
    int lock; /* held while the injection lasts: two tools take turns */
    int fd;   /* /proc/PID/mem */
    struct pb_mem mem;
    struct pb_maps maps;
    struct pb_arena arena;
    struct pb_native *native;
    uint8_t *room; /* for copies made while a thread is held: memory that is there already */
    struct pb_libc libc;
    const char *python; /* file that holds the interpreter */
    uint64_t code;     /* where the stub lies */
    uint64_t room_end; /* how far the unused room behind it goes */
    struct pb_block block;
    struct pb_tracer tracer;
};

void pb_injection_step(const struct pb_injection *in, enum pb_inject_step step);
bool pb_injection_expired(const struct pb_injection *in);
/* Has the process ended? A zombie has. */
bool pb_injection_ended(const struct pb_injection *in);
/* The way of pb_inject with a hook. */
int pb_injection_run(pid_t pid, const struct pb_inject_opts *o, const struct pb_inject_hook *hook,
                     struct pb_inject_report *ret, struct pb_err *err);

/* refuse.c: what can be told without touching the process. 0: may be tried. */
int pb_refuse(struct pb_injection *in, struct pb_err *err);

/* place.c: writes the code where no code is, and chooses where the arena goes. */
int pb_place_code(struct pb_injection *in, struct pb_err *err);
int pb_place_arena(struct pb_injection *in, struct pb_err *err);
/* The library as an earlier injection left it: address of a symbol, or 0. */
uint64_t pb_place_loaded(struct pb_injection *in);

/* handover.c: from the new thread's first word to the entry function's answer. */
int pb_handover(struct pb_injection *in, struct pb_err *err);
/*
 * handover_file.c: a descriptor of the file in memory that the target has under this number, as
 * it says; -1 when it is anything but an empty one of its own user's making. The two ways behind
 * it, for kernels with pidfd_getfd and without, return a negative errno: -EBADF for that.
 */
int pb_handover_file(struct pb_injection *in, int fd, struct pb_err *err);
int pb_handover_pidfd(pid_t pid, int fd, uid_t owner);
int pb_handover_reopen(pid_t pid, int fd, uid_t owner);
/* The folder of open files of the process itself, spelled as never before; its length. */
size_t pb_fresh_fd_folder(char *path, size_t cap);

/* pep768.c: the interpreter's own way, 3.14 and later. */
int pb_pep768(struct pb_injection *in, struct pb_err *err);

#endif
