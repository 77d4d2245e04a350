/*
 * hot.h - where the time of a recording goes, for a terminal.
 *
 * Owns: nothing; results live in the caller's arena.
 * Threads: one.
 * Fails: never.
 * Not here: recording (profile/).
 */
#ifndef PB_CLI_FLAME_HOT_H
#define PB_CLI_FLAME_HOT_H

#include "recording/recording.h"
#include "display/print.h"

struct pb_hot {
    const struct pb_prof_frame *frame;
    uint64_t self_ns, total_ns; /* total: with callees; a recursion counts once */
    uint64_t state_ns[4];       /* its own time by enum pb_state */
    uint64_t gil_wait_ns, gil_hold_ns; /* of state_ns: not running, with the GIL */
    uint64_t before_ns; /* its own time in what the recording is compared with */
};

/* Frames by their own time, most first; returns how many. ret_all: time of all samples. */
size_t pb_hot_frames(const struct pb_recording *r, struct pb_arena *a, struct pb_hot **ret,
                     uint64_t *ret_all);
/* What it mostly does when it does not run: "waiting", "idle, holds the GIL"; NULL: it runs. */
const char *pb_hot_state(const struct pb_hot *h);
/* Lines with share, bar, function, file and state; of a comparison those that changed most. */
void pb_hot_print(struct pb_print *out, const struct pb_recording *r, size_t lines);

#endif
