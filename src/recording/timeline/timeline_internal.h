/*
 * timeline_internal.h - what timeline.c and the two formats share.
 *
 * Owns: nothing. Threads: one. Fails: never.
 */
#ifndef PB_RECORDING_TIMELINE_TIMELINE_INTERNAL_H
#define PB_RECORDING_TIMELINE_TIMELINE_INTERNAL_H

#include "recording/timeline/timeline.h"

/* A row of the answer: a slice of a track, or a value of a counter. */
struct pb_timeline_row {
    const char *kind;  /* nested, lanes, counter */
    int64_t pid, rank; /* -1: of the machine; of no job */
    const char *track;
    int64_t from_us, to_us;
    const char *name, *unit, *detail; /* "" where there is none */
    double value;
    int64_t step, bytes; /* -1: unknown */
    double gpu_ms;       /* < 0: unknown */
};

/* A track has a number; those of a counter have a unit. */
struct pb_timeline_writer {
    void (*begin)(struct pb_buf *out, const struct pb_recording *samples);
    void (*process)(struct pb_buf *out, int64_t pid, const char *name);
    void (*track)(struct pb_buf *out, uint64_t id, const char *name,
                  const struct pb_timeline_row *row);
    void (*open)(struct pb_buf *out, uint64_t id, const struct pb_timeline_row *row);
    void (*close)(struct pb_buf *out, uint64_t id, int64_t at_us);
    void (*count)(struct pb_buf *out, uint64_t id, const struct pb_timeline_row *row);
    void (*end)(struct pb_buf *out);
};

extern const struct pb_timeline_writer pb_timeline_perfetto, pb_timeline_chrome;

#endif
