/*
 * From the new thread's first sign of life to the answer of the entry function.
 *
 * The thread has made a file in memory and waits about a second for it to be
 * filled. Whatever happens to the tool, the thread ends by itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/internal.h"

#define NAP_US 50
#define POLLS_PER_CHECK 200
#define NONCE_BITS 64
/* Once a thread is on its way it is waited for at least so long. */
#define GRACE_NS 2000000000ull
#define END_NS 50000000ull

/* Into the memory that was opened at the start: never that of a program started since. */
static bool put(struct pb_injection *in, size_t at, const void *data, size_t len)
{
    return pwrite(in->fd, data, len, (off_t)(in->block.arena + at)) == (ssize_t)len;
}

static bool put_word(struct pb_injection *in, size_t at, uint32_t value)
{
    return put(in, at, &value, sizeof value);
}

/* Waits until the state is at least this; 0 when it never came. */
static uint32_t await(struct pb_injection *in, uint32_t state, struct pb_block *b)
{
    for (int polls = 0; !pb_injection_expired(in); polls++) {
        if (pb_mem_get(&in->mem, in->block.arena, b, sizeof *b) && b->state >= state)
            return b->state;
        if (polls % POLLS_PER_CHECK == POLLS_PER_CHECK - 1 && pb_injection_ended(in))
            return 0;
        /* Asleep, not spinning: the new thread shall find a free CPU, not the victim's. */
        usleep(NAP_US);
    }
    return 0;
}

/*
 * The loader knows a library by its path and would hand out an old one again.
 * A path may hold any number of "/." that mean nothing: they spell a number.
 */
size_t pb_fresh_fd_folder(char *path, size_t cap)
{
    uint64_t nonce = pb_clock_ns();
    size_t len;

    if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce)
        nonce = pb_clock_ns();
    len = (size_t)snprintf(path, cap, "/proc/self/fd");
    for (int i = 0; i < NONCE_BITS && len + 24 < cap; i++) {
        path[len++] = '/';
        if (nonce >> i & 1)
            path[len++] = '.';
    }
    path[len] = '\0';
    return len;
}

static int deliver_library(struct pb_injection *in, int fd, struct pb_err *err)
{
    const char *data = in->o->library;
    size_t done = 0;
    int to = pb_handover_file(in, fd, err), e = 0;

    if (to < 0)
        return -1;
    while (done < in->o->library_size && !e) {
        ssize_t n = pwrite(to, data + done, in->o->library_size - done, (off_t)done);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            e = n == 0 ? ENOSPC : errno;
    }
    close(to);
    return e ? pb_err_set(err, PB_FAIL, "the library cannot be handed over: %s", strerror(e)) : 0;
}

static int send_library_name(struct pb_injection *in, const struct pb_block *b, struct pb_err *err)
{
    char path[sizeof b->path] = "";
    size_t len = strlen(in->o->options) + 1, at;

    if (!in->block.entry) {
        if (deliver_library(in, b->fd, err) < 0)
            return -1;
        at = pb_fresh_fd_folder(path, sizeof path);
        snprintf(path + at, sizeof path - at, "/%d", b->fd);
    }
    if (!put(in, PB_B_PATH, path, sizeof path) ||
        !put(in, PB_B_OPTIONS, in->o->options, len))
        return pb_err_set(err, PB_FAIL, "the options cannot be handed over: %s", strerror(errno));
    pb_injection_step(in, PB_STEP_LIBRARY);
    if (!put_word(in, PB_B_GO, 1))
        return pb_err_set(err, PB_FAIL, "the probe cannot be started: %s", strerror(errno));
    pb_injection_step(in, PB_STEP_GO);
    return 0;
}

static int vanished(struct pb_injection *in, const char *what, struct pb_err *err)
{
    if (pb_injection_ended(in))
        return pb_err_set(err, PB_NO_TARGET, "it ended meanwhile");
    return pb_err_set(err, PB_TIMEOUT, "%s within %.3g s", what, in->o->timeout_ms / 1000.0);
}

static int failed(const struct pb_block *b, struct pb_err *err)
{
    switch (b->state) {
    case PB_ST_NO_THREAD:
        return pb_err_set(err, PB_FAIL, "it cannot start a thread: %s", strerror(b->error));
    case PB_ST_NO_FILE:
        return pb_err_set(err, PB_FAIL, "it cannot make a file in memory: %s",
                          strerror(-b->error));
    case PB_ST_NO_LIBRARY:
        return pb_err_set(err, PB_FAIL, "it cannot load the probe: %.*s", (int)PB_WHY_MAX,
                          b->why[0] ? b->why : "dlopen failed");
    case PB_ST_GAVE_UP:
        return pb_err_set(err, PB_TIMEOUT, "the probe was handed over too late");
    }
    if (b->result == -ESRCH)
        return pb_err_set(err, PB_NO_TARGET, "its Python does not run: it is about to end");
    if (b->result < 0)
        return pb_err_set(err, PB_FAIL, "the probe did not start: %s", strerror(-b->result));
    return 0;
}

/* The last of the loading thread is that its arena goes away. */
static void await_end(struct pb_injection *in)
{
    uint64_t until = pb_clock_ns() + END_NS;
    uint32_t state;

    while (pb_mem_u32(&in->mem, in->block.arena, &state) && pb_clock_ns() < until)
        usleep(NAP_US);
}

int pb_handover(struct pb_injection *in, struct pb_err *err)
{
    uint64_t earliest = pb_clock_ns() + GRACE_NS;
    struct pb_block b;

    if (in->deadline < earliest)
        in->deadline = earliest;
    if (await(in, PB_ST_READY, &b) == 0)
        return vanished(in, "the borrowed thread did not come back", err);
    b.why[sizeof b.why - 1] = '\0';
    if (b.state == PB_ST_READY) {
        pb_injection_step(in, PB_STEP_READY);
        if (send_library_name(in, &b, err) < 0)
            return -1;
        if (await(in, PB_ST_DONE, &b) == 0)
            return vanished(in, "the probe was handed over, but did not answer", err);
        b.why[sizeof b.why - 1] = '\0';
    }
    pb_injection_step(in, PB_STEP_ANSWERED);
    put_word(in, PB_B_ACK, 1);
    await_end(in);
    in->report->result = b.result;
    return failed(&b, err);
}
