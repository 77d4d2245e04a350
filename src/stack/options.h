/*
 * options.h - how a stack is asked for, in words: on the command line, at the prompt, over HTTP.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: with the word that makes no sense; what is not said keeps its default.
 * Not here: who may ask for what (node/http), how stacks are shown (display/stack.h).
 */
#ifndef PB_STACK_OPTIONS_H
#define PB_STACK_OPTIONS_H

#include "host/text/buf.h"
#include "stack/snapshot.h"

struct pb_stack_opts {
    struct pb_snapshot_opts snapshot;
    bool subprocesses; /* also what the process started, as a tree */
    bool secrets;      /* passwords and the like as they are, not as *** */
};

/* The main thread, 200 frames of it, held only if it must be. */
#define PB_STACK_OPTS_INIT {.snapshot = {.pause = PB_PAUSE_ONE, .max_frames = 200}}

/* "all", "tid", …; ends with NULL. */
extern const char *const pb_stack_opt_names[];

/* One of them. A flag is on with "1", "true", "yes", "on" or "", off with their opposites. */
int pb_stack_opts_set(struct pb_stack_opts *o, const char *name, const char *value,
                      struct pb_err *err);
/* "all=1&pause=never": all that is not as by default, as pb_stack_opts_set takes it. */
void pb_stack_opts_write(const struct pb_stack_opts *o, struct pb_buf *b);

#endif
