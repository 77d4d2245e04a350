#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/process/proc.h"
#include "inject/arch.h"
#include "inject/hijack.h"
#include "inject/internal.h"

#define LOCK_NAP_US 2000
#define OPTIONS_MAX 4000
/* Time for the second way when the first one has used up all there was. */
#define SECOND_WAY_NS 2000000000ull

void pb_injection_step(const struct pb_injection *in, enum pb_inject_step step)
{
    if (in->hook && in->hook->at)
        in->hook->at(step, in->hook->arg);
}

bool pb_injection_expired(const struct pb_injection *in)
{
    return pb_clock_ns() > in->deadline;
}

bool pb_injection_ended(const struct pb_injection *in)
{
    struct pb_proc_stat st;

    return pb_proc_stat(&st, in->pid, 0, NULL) < 0 || st.state == 'Z' || st.state == 'X';
}

/*
 * Signals that wait until the victim is back. Those that a thread raises by
 * its own doing stay open, and so do the C library's internal ones: a new
 * thread inherits the mask, and one that cannot be told of setuid() blocks it.
 */
static uint64_t signals_to_block(void)
{
    static const int open[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, 32, 33, 34};
    uint64_t set = ~(uint64_t)0;

    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        set &= ~((uint64_t)1 << (open[i] - 1));
    return set;
}

/* A lock on the process's own folder: nothing to clean up, whoever dies. */
static int lock_target(struct pb_injection *in, struct pb_err *err)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/%d", (int)in->pid);
    in->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (in->lock < 0)
        return pb_err_set(err, PB_NO_TARGET, "no such process");
    while (flock(in->lock, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return 0; /* no locks on this /proc: the code itself copes with two tools */
        if (pb_injection_expired(in))
            return pb_err_set(err, PB_TIMEOUT, "another probing has been injecting for %.3g s",
                              in->o->timeout_ms / 1000.0);
        usleep(LOCK_NAP_US);
    }
    return 0;
}

static int open_memory(struct pb_injection *in, struct pb_err *err)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/%d/mem", (int)in->pid);
    in->fd = open(path, O_RDWR | O_CLOEXEC);
    if (in->fd < 0)
        return pb_err_set(err, errno == EACCES || errno == EPERM ? PB_DENIED : PB_FAIL,
                          "its memory cannot be written: %s", strerror(errno));
    pb_mem_init_process(&in->mem, in->pid);
    return 0;
}

static int check_options(const struct pb_inject_opts *o, struct pb_err *err)
{
    if (strlen(o->options) > OPTIONS_MAX)
        return pb_err_set(err, PB_USAGE, "options of more than %d bytes", OPTIONS_MAX);
    if (strlen(o->entry) >= sizeof((struct pb_block *)0)->symbol)
        return pb_err_set(err, PB_USAGE, "the name of the entry function is too long");
    return 0;
}

/* Touched now, so that it costs no page fault while a thread is held. */
static void make_room(struct pb_injection *in)
{
    in->room = pb_alloc_resize(NULL, PB_ROOM_BYTES);
    memset(in->room, 1, PB_ROOM_BYTES);
}

/* The head of the block: all that the stub and the new thread need to know. */
static void fill_block(struct pb_injection *in)
{
    struct pb_block *b = &in->block;
    const struct pb_libc *c = &in->libc;

    b->fd = -1;
    b->stack_size = PB_STACK_FIRST;
    b->pthread_create = c->pthread_create;
    b->attr_init = c->attr_init;
    b->attr_setstacksize = c->attr_setstacksize;
    b->attr_setdetachstate = c->attr_setdetachstate;
    b->errno_location = c->errno_location;
    b->dlopen = c->dlopen;
    b->dlsym = c->dlsym;
    b->dlerror = c->dlerror;
    b->dlmode = c->dlmode;
    b->entry = pb_place_loaded(in);
    b->nap[1] = PB_NAP_NS;
    b->blocked = signals_to_block();
    memcpy(b->name, "libprobing.so", sizeof "libprobing.so");
    memcpy(b->symbol, in->o->entry, strlen(in->o->entry));
}

static int prepare(struct pb_injection *in, struct pb_err *err)
{
    if (check_options(in->o, err) < 0 || lock_target(in, err) < 0 || pb_refuse(in, err) < 0 ||
        open_memory(in, err) < 0 || pb_maps_read(&in->maps, in->pid, err) < 0 ||
        pb_libc_find(&in->libc, in->pid, &in->maps, &in->mem, err) < 0 ||
        pb_native_create(&in->native, in->pid, &in->maps, &in->mem, err) < 0)
        return -1;
    fill_block(in);
    make_room(in);
    pb_injection_step(in, PB_STEP_PREPARED);
    if (pb_place_code(in, err) < 0)
        return -1;
    pb_injection_step(in, PB_STEP_CODE);
    return pb_place_arena(in, err);
}

static void finish(struct pb_injection *in)
{
    free(in->room);
    pb_native_destroy(in->native);
    pb_libc_finish(&in->libc);
    pb_maps_finish(&in->maps);
    pb_arena_finish(&in->arena);
    if (in->fd >= 0)
        close(in->fd);
    if (in->lock >= 0)
        close(in->lock);
}

static int inject_by_best_method(struct pb_injection *in, struct pb_err *err)
{
    struct pb_err hijack = {0};

    if (in->hook && in->hook->force_pep768)
        return pb_pep768(in, err);
    if (pb_hijack(in, &hijack) == 0)
        return pb_handover(in, err);
    in->deadline = pb_clock_ns() + SECOND_WAY_NS;
    if (hijack.code == PB_TIMEOUT && pb_pep768(in, err) == 0)
        return 0;
    /* What the first way met is the better explanation. */
    *err = hijack;
    return -1;
}

int pb_injection_run(pid_t pid, const struct pb_inject_opts *o, const struct pb_inject_hook *hook,
                     struct pb_inject_report *ret, struct pb_err *err)
{
    struct pb_injection in = {.pid = pid, .o = o, .hook = hook, .report = ret};
    int rc;

    memset(ret, 0, sizeof *ret);
    in.lock = in.fd = -1;
    in.began = pb_clock_ns();
    in.deadline = in.began + (uint64_t)o->timeout_ms * 1000000u;
    rc = prepare(&in, err);
    if (rc == 0)
        rc = inject_by_best_method(&in, err);
    ret->total_us = (double)(pb_clock_ns() - in.began) / 1000.0;
    /* Whatever failed then, that is why. */
    if (rc < 0 && err->code == PB_FAIL && pb_injection_ended(&in)) {
        *err = (struct pb_err){0};
        pb_err_set(err, PB_NO_TARGET, "it ended meanwhile");
    }
    finish(&in);
    return rc < 0 ? pb_err_prefix(err, "%d", (int)pid) : 0;
}

int pb_inject(pid_t pid, const struct pb_inject_opts *o, struct pb_inject_report *ret,
              struct pb_err *err)
{
    return pb_injection_run(pid, o, NULL, ret, err);
}
