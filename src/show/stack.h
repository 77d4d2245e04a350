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

/* Local variables and source that look like secrets become "***"; the text goes into the arena. */
void pb_stack_mask(struct pb_snapshot *s, struct pb_arena *a);
/* verbose: full paths. Source lines are shown where the snapshot has them. */
void pb_stack_text(struct pb_print *out, const struct pb_snapshot *s,
                   const struct pb_snapshot_opts *o, bool verbose);
/* The same without a line about the process. */
void pb_stack_text_threads(struct pb_print *out, const struct pb_snapshot *s, bool verbose);
/* One line per snapshot. */
void pb_stack_json(struct pb_buf *out, const struct pb_snapshot *s,
                   const struct pb_snapshot_opts *o);
/* Where a process stands in its tree: fields of an open object. */
void pb_stack_json_family(struct pb_buf *out, const struct pb_tree_process *p);

struct pb_stack_tree_opts {
    bool json, verbose;
    bool secrets; /* as they are, not as *** */
    bool (*within)(pid_t pid, void *arg); /* which processes may be shown; NULL: all */
    void *arg;
};

/*
 * The stacks of a process and of all that it started, as a tree; in JSON a line for each process,
 * in front of its children. Fails when none of them can be read.
 */
int pb_stack_tree(struct pb_print *out, pid_t pid, const struct pb_snapshot_opts *o,
                  const struct pb_stack_tree_opts *how, struct pb_err *err);
/* The function of a native frame, or module+offset where there is no symbol. */
const char *pb_stack_native_name(const struct pb_frame *f, struct pb_arena *a);
/* How the interpreter was found and what was held for how long, to stderr. */
void pb_stack_verbose(const struct pb_snapshot *s);
/* The line between two repetitions. */
void pb_stack_again(struct pb_print *out);

#endif
