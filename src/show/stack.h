/*
 * stack.h - a snapshot as text and as JSON.
 *
 * Owns: nothing. Threads: one. Fails: never.
 * Not here: taking the snapshot (unwind/snapshot.h).
 */
#ifndef PB_SHOW_STACK_H
#define PB_SHOW_STACK_H

#include "show/print.h"
#include "unwind/snapshot.h"

/* Local variables that look like secrets become "***"; the text goes into the arena. */
void pb_stack_mask(struct pb_snapshot *s, struct pb_arena *a);
/* verbose: full paths. */
void pb_stack_text(struct pb_print *out, const struct pb_snapshot *s,
                   const struct pb_snapshot_opts *o, bool verbose);
/* One line per snapshot. */
void pb_stack_json(struct pb_buf *out, const struct pb_snapshot *s,
                   const struct pb_snapshot_opts *o);
/* The function of a native frame, or module+offset where there is no symbol. */
const char *pb_stack_native_name(const struct pb_frame *f, struct pb_arena *a);
/* How the interpreter was found and what was held for how long, to stderr. */
void pb_stack_verbose(const struct pb_snapshot *s);
/* The line between two repetitions. */
void pb_stack_again(struct pb_print *out);

#endif
