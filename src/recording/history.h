/*
 * history.h - a recording made of rows of python.samples and python.stack_frames.
 *
 * Owns: what it needs while rows come in; the recording is the caller's.
 * Threads: one.
 * Fails: with PB_FAIL when a line is not what was asked for.
 * Not here: asking (the command line by its node, the node itself), what times mean to people.
 *
 * The question is SQL, four statements; the answer comes as lines of JSON, as the node's format
 * "rows" has them: {"columns":…}, then an array a row. Rows that reach over an end of the window
 * count with the part inside. Within a slot (a second, or more where the window is long) the order
 * of what a thread did is not known; the heaviest comes first.
 */
#ifndef PB_RECORDING_HISTORY_H
#define PB_RECORDING_HISTORY_H

#include "base/err.h"
#include "host/text/buf.h"
#include "recording/recording.h"

/* Milliseconds since 1970. */
struct pb_history_window {
    int64_t from_ms, to_ms;
};

struct pb_history;

/* Appends the question. where: another condition on python.samples, or "". */
void pb_history_sql(struct pb_buf *out, const struct pb_history_window *w, const char *where);
/* Appends the question when its samples begin and end, in milliseconds; NULL: there are none. */
void pb_history_extent_sql(struct pb_buf *out, const struct pb_history_window *w,
                           const char *where);

/* by_process: also of one process alone, a frame at the root for each. */
struct pb_history *pb_history_begin(struct pb_recording *r, const struct pb_history_window *w,
                                    bool by_function, bool by_process);
/* One line of the answer, without its end. */
int pb_history_line(struct pb_history *h, const char *line, size_t len, struct pb_err *err);
/* Processes that have rows. */
size_t pb_history_processes(const struct pb_history *h);
void pb_history_end(struct pb_history *h);

#endif
