/*
 * formats.h - a recording as a file that some viewer opens.
 *
 * Owns: nothing; the text goes into the caller's buffer.
 * Threads: any.
 * Fails: never. Names come from a target, and each format writes them as its own rules for text
 * ask, so that none can end a string, a tag or a line.
 * Not here: files.
 *
 * A format is one file in formats/ and one line in PB_FORMATS.
 */
#ifndef PB_PROFILE_FORMATS_H
#define PB_PROFILE_FORMATS_H

#include "host/buf.h"
#include "profile/recording.h"

/* X(name, endings of file names, what it is) */
#define PB_FORMATS(X)                                                                              \
    X(html, ".html .htm", "a page that needs nothing else")                                        \
    X(svg, ".svg", "a picture")                                                                    \
    X(speedscope, ".speedscope.json .speedscope .json", "for speedscope.app")                      \
    X(pprof, ".pb .pprof .prof", "for go tool pprof, Pyroscope and others")                        \
    X(collapsed, ".collapsed .folded .txt", "one stack a line, microseconds behind it")            \
    X(chrome, ".trace.json .chrome.json .trace", "for chrome://tracing and Perfetto")              \
    X(gecko, ".gecko.json .gecko", "for profiler.firefox.com")

#define PB_FORMAT_CHOICES "html|svg|speedscope|pprof|collapsed|chrome|gecko"

struct pb_format {
    const char *name, *endings, *what;
    void (*write)(const struct pb_recording *r, struct pb_buf *out);
};

extern const struct pb_format pb_formats[]; /* ends with a NULL name */
const struct pb_format *pb_format_find(const char *name);
/* By the longest ending that fits; NULL when none does. */
const struct pb_format *pb_format_by_path(const char *path);

#define X(name, endings, what)                                                                     \
    void pb_format_##name(const struct pb_recording *r, struct pb_buf *out);
PB_FORMATS(X)
#undef X

/* "func (file:12)", without what is not known. */
void pb_format_label(struct pb_buf *out, const struct pb_prof_frame *f);
/* Text in XML and HTML: control characters and what is no UTF-8 become U+FFFD. */
void pb_format_xml(struct pb_buf *out, const char *text);
/* Frames of a stack from the outermost on; room for depth entries is in the arena. */
size_t pb_format_path(const struct pb_stacks *s, uint32_t node, struct pb_arena *a,
                      uint32_t **ret_frames);
/* "MainThread (4242)"; the process in front where there are several. */
const char *pb_format_thread(const struct pb_recording *r, size_t thread, struct pb_arena *a);
/* "train.py --bs 8 · 4242 · Python 3.11.7" */
const char *pb_format_title(const struct pb_recording *r, struct pb_arena *a);

#endif
