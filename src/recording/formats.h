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
#ifndef PB_RECORDING_FORMATS_H
#define PB_RECORDING_FORMATS_H

#include "host/text/buf.h"
#include "recording/recording.h"

/*
 * X(name, shows differences, shows memory, endings of file names, what it is); the first is what
 * is written by default
 */
#ifdef PB_WEB
#define PB_FORMAT_PAGE(X) X(html, true, true, ".html .htm", "a page that needs nothing else")
#define PB_FORMAT_CHOICES "html|" PB_FORMAT_OTHERS
#else
#define PB_FORMAT_PAGE(X)
#define PB_FORMAT_CHOICES PB_FORMAT_OTHERS
#endif
#define PB_FORMAT_OTHERS "svg|speedscope|pprof|collapsed|chrome|perfetto|gecko"

#define PB_FORMATS(X)                                                                              \
    PB_FORMAT_PAGE(X)                                                                              \
    X(svg, true, true, ".svg", "a picture")                                                        \
    X(speedscope, false, true, ".speedscope.json .speedscope .json", "for speedscope.app")         \
    X(pprof, false, true, ".pb .pprof .prof", "for go tool pprof, Pyroscope and others")           \
    X(collapsed, true, true, ".collapsed .folded .txt", "one stack a line, microseconds behind it")\
    X(chrome, false, false, ".trace.json .chrome.json .trace", "for chrome://tracing and Perfetto")\
    X(perfetto, false, false, ".pftrace .perfetto-trace .perfetto", "for ui.perfetto.dev")         \
    X(gecko, false, false, ".gecko.json .gecko", "for profiler.firefox.com")

struct pb_format {
    const char *name;
    bool compares; /* shows what the recording is compared with */
    bool measures; /* shows memory as well as time */
    const char *endings, *what;
    void (*write)(const struct pb_recording *r, struct pb_buf *out);
};

extern const struct pb_format pb_formats[]; /* ends with a NULL name */
const struct pb_format *pb_format_find(const char *name);
/* By the longest ending that fits; NULL when none does. */
const struct pb_format *pb_format_by_path(const char *path);

#define X(name, compares, measures, endings, what)                                                 \
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
/* "2025-08-01 12:00:00", local time */
const char *pb_format_clock(struct pb_arena *a, int64_t ns);
/* "1.234 s", or "12.3 MB" */
const char *pb_format_amount(const struct pb_recording *r, struct pb_arena *a, uint64_t weight);
/* "10.0 s at 100 Hz, 1,000 samples, 0 missed, 0 torn", and what it is compared with */
const char *pb_format_info(const struct pb_recording *r, struct pb_arena *a);

#endif
