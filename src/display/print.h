/*
 * print.h - text for people: colours, widths, columns.
 *
 * Owns: the text until it is flushed.
 * Threads: one.
 * Fails: only in pb_print_flush, when the text cannot be written.
 * Not here: JSON (host/text/buf.h; write it into out->buf), CSV of tables (table.h).
 *
 * Text is collected and written at once, so that a command that fails halfway
 * prints either all of a stack or nothing of it, and so that pipes see few writes.
 */
#ifndef PB_DISPLAY_PRINT_H
#define PB_DISPLAY_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/text/buf.h"

enum { PB_PIPE_WIDTH = 240 };

enum pb_style { PB_PLAIN, PB_BOLD, PB_DIM, PB_RED, PB_GREEN, PB_YELLOW, PB_CYAN };

struct pb_print {
    struct pb_buf buf; /* may be written to directly */
    int fd;
    bool colour;
    bool is_terminal;
    int width; /* columns of the terminal; 0 when it is none */
    bool broken; /* the reader went away (EPIPE): a loop should end */
};

void pb_print_init(struct pb_print *p, int fd);
/* The terminal may have another width by now. */
void pb_print_measure(struct pb_print *p);
void pb_print_finish(struct pb_print *p);
/* Writes what was collected. A reader that went away is no error, see broken. */
int pb_print_flush(struct pb_print *p, struct pb_err *err);

/* What a table's lines are to fit into. */
static inline size_t pb_print_width(const struct pb_print *p)
{
    return p->width ? (size_t)p->width : PB_PIPE_WIDTH;
}

/* As they are; the text is trusted. */
void pb_print_puts(struct pb_print *p, const char *s);
void pb_print_f(struct pb_print *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Text that came from a target or a file: control characters are shown as
 * \n or \x1b, bytes that are no UTF-8 as U+FFFD, so that it stays on its line
 * and cannot drive the terminal.
 */
void pb_print_text(struct pb_print *p, enum pb_style style, const char *s);
/* The same, padded with spaces to a display width; right puts the padding in front. */
void pb_print_cell(struct pb_print *p, enum pb_style style, const char *s, size_t width,
                   bool right);

/*
 * A whole text that another machine or another user's process has made, JSON for programs: as it
 * is, but on a terminal, which it may not drive.
 */
void pb_print_foreign(struct pb_print *p, const char *data, size_t len);

/* Colour on and off, nothing when colours are off; end with PB_PLAIN. */
void pb_print_style(struct pb_print *p, enum pb_style style);

/* Copy of s as pb_print_text shows it. */
char *pb_text_clean(struct pb_arena *a, const char *s);
/*
 * The same for lines that come in pieces: newlines and tabs pass, line ends of CSV as newlines. A
 * character that is cut in two waits in the tail, which starts zeroed, for the next piece; len 0
 * ends the text.
 */
struct pb_text_tail {
    char bytes[4];
    size_t len;
};
void pb_text_stream(struct pb_text_tail *tail, const void *data, size_t len, struct pb_buf *ret);
/* Columns that clean text takes on a terminal. */
size_t pb_text_width(const char *s);
/* Shortens clean text to width columns with "…": in the middle, or at the end. */
char *pb_text_middle(struct pb_arena *a, const char *s, size_t width);
char *pb_text_end(struct pb_arena *a, const char *s, size_t width);

#endif
