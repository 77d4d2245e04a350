/* A recording built by hand: two threads, a shared prefix, names that try to break out. */
#ifndef PB_TEST_PROFILE_MADE_H
#define PB_TEST_PROFILE_MADE_H

#include "recording/formats.h"

#define EVIL "a\"<b>&';\n\x1b[31m\xff</script>"

static const struct pb_prof_frame made_main = {"main", "/app/train.py", 15, false};
static const struct pb_prof_frame made_step = {"step", "/usr/lib/python3.11/a/b.py", 7, false};
static const struct pb_prof_frame made_evil = {EVIL, "/x/" EVIL, 3, false};
static const struct pb_prof_frame made_poll = {"poll", "/lib/libc.so.6", 0, true};

static inline void made_add(struct pb_recording *r, uint32_t thread, uint32_t node, uint64_t at,
                            uint64_t weight, enum pb_state state)
{
    struct pb_rec_sample s = {.at_ns = at, .weight_ns = weight, .thread = thread, .node = node,
                              .state = (uint8_t)state, .on_cpu = state == PB_RUNNING,
                              .holds_gil = state == PB_RUNNING};

    pb_recording_add(r, &s);
}

/* Main: 10 ms in step, twice, 20 ms in the evil one; pool: 30 ms waiting in poll, it never ran. */
static inline void made_recording(struct pb_recording *r)
{
    uint32_t top, step, evil, pool, poll;

    pb_recording_init(r);
    r->pid = 42;
    r->command = "train.py --x";
    r->python = "3.11.7";
    r->rate = 100;
    r->length_ns = 40000000;
    r->started_ns = 1700000000000000000;
    pb_recording_thread(r, 42, 42, "MainThread");
    pool = pb_recording_thread(r, 42, 43, "pool-1");
    top = pb_stacks_child(&r->stacks, 0, &made_main);
    step = pb_stacks_child(&r->stacks, top, &made_step);
    evil = pb_stacks_child(&r->stacks, top, &made_evil);
    poll = pb_stacks_child(&r->stacks, 0, &made_poll);
    made_add(r, 0, step, 0, 10000000, PB_RUNNING);
    made_add(r, pool, poll, 0, 30000000, PB_WAITING);
    made_add(r, 0, step, 10000000, 10000000, PB_RUNNING);
    made_add(r, 0, evil, 20000000, 20000000, PB_WAITING);
}

#endif
