/*
 * stack.h - a snapshot as text and as JSON.
 *
 * Owns: nothing. Threads: one. Fails: never.
 * Not here: taking the snapshot (stack/snapshot.h).
 */
#ifndef PB_DISPLAY_STACK_H
#define PB_DISPLAY_STACK_H

#include "host/python/tree.h"
#include "display/print.h"
#include "stack/snapshot.h"

/* Local variables and source that look like secrets become "***"; the text goes into the arena. */
void pb_stack_mask(struct pb_snapshot *s, struct pb_arena *a);
/* verbose: full paths. Source lines are shown where the snapshot has them. */
void pb_stack_text(struct pb_print *out, const struct pb_snapshot *s,
                   const struct pb_snapshot_opts *o, bool verbose);
/* Writes the threads only, without a line about the process. */
void pb_stack_text_threads(struct pb_print *out, const struct pb_snapshot *s, bool verbose);

/* A process with its stacks, or why there are none. */
struct pb_stack_process {
    const struct pb_tree_process *family; /* its place in a tree of processes; NULL: in none */
    struct pb_snapshot *snapshot;         /* NULL: it could not be read, or is no Python */
    struct pb_err err;
};

/* One line of JSON. */
void pb_stack_json(struct pb_buf *out, const struct pb_stack_process *p,
                   const struct pb_snapshot_opts *o);
/*
 * Such lines, which another node wrote, in the arena. Everything in them is that node's word:
 * numbers out of range, missing fields and control characters do no harm.
 */
int pb_stack_parse(const char *text, size_t len, struct pb_arena *a, struct pb_stack_process **ret,
                   size_t *ret_n, struct pb_err *err);
/* Processes as a tree, each in front of its children. */
void pb_stack_tree_text(struct pb_print *out, const struct pb_stack_process *v, size_t n,
                        bool verbose);
/* The function of a native frame, or module+offset where there is no symbol. */
const char *pb_stack_native_name(const struct pb_frame *f, struct pb_arena *a);
/* How the interpreter was found and what was held for how long, to stderr. */
void pb_stack_verbose(const struct pb_snapshot *s);
/* The line between two repetitions. */
void pb_stack_again(struct pb_print *out);

#endif
