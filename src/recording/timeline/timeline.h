/*
 * timeline.h - what happened when, as a trace that Perfetto and Chrome open: steps, modules,
 * operations between ranks, spans, memory, processors and GPUs as tracks, beside the samples.
 *
 * Owns: what it needs while rows come in; the bytes go into the caller's buffer.
 * Threads: one.
 * Fails: with PB_FAIL when a line is not what was asked for.
 * Not here: asking (the command line by its node, the node itself), files.
 *
 * The question is SQL, several statements; the answer comes as lines of JSON, as the node's format
 * "rows" has them. Rows of a track come together and in the order of their begin, so that one
 * track is kept in mind at a time, however many rows there are. The caller may empty the buffer
 * between two lines.
 */
#ifndef PB_RECORDING_TIMELINE_TIMELINE_H
#define PB_RECORDING_TIMELINE_TIMELINE_H

#include "base/err.h"
#include "host/text/buf.h"
#include "recording/history.h"

enum pb_timeline_format { PB_TIMELINE_PERFETTO, PB_TIMELINE_CHROME };

struct pb_timeline;

/* Asks for the time of the last row, milliseconds since 1970. */
extern const char pb_timeline_newest[];
/* Appends the question. */
void pb_timeline_sql(struct pb_buf *out, const struct pb_history_window *w);
/* samples: what threads did meanwhile; NULL: nothing is known of it. */
struct pb_timeline *pb_timeline_begin(enum pb_timeline_format format,
                                      const struct pb_history_window *w,
                                      const struct pb_recording *samples, struct pb_buf *out);
/* One line of the answer, without its end. */
int pb_timeline_line(struct pb_timeline *t, const char *line, size_t len, struct pb_err *err);
/* The end of the file; returns how many slices and values of counters are in it. */
uint64_t pb_timeline_end(struct pb_timeline *t);
/* Gives up; NULL is fine. */
void pb_timeline_destroy(struct pb_timeline *t);

#endif
