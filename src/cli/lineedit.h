/*
 * lineedit.h - one line from a terminal: editing, history, completion.
 *
 * Owns: the history and, until it is closed, the terminal's mode: keys that
 * come while a line is carried out wait for the next one, only Ctrl-C does not.
 * Threads: one.
 * Fails: a terminal that cannot be put into raw mode is read line by line; a
 * history that cannot be kept is only forgotten.
 * Not here: what a line means.
 *
 * Without a terminal on both sides it reads plain lines and prints no prompt.
 */
#ifndef PB_CLI_LINEEDIT_H
#define PB_CLI_LINEEDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "host/arena.h"
#include "host/buf.h"

/* Fills in what the word in front of the cursor may become; returns how many. */
typedef size_t pb_lineedit_complete(const char *text, struct pb_arena *a, char ***ret, void *arg);

struct pb_lineedit {
    bool terminal;
    char *history_path; /* NULL: not kept */
    char **history;     /* oldest first */
    size_t count;
    pb_lineedit_complete *complete;
    void *arg;
    /* Of plain input: what was read beyond the line. */
    struct pb_buf ahead;
    bool ended;
};

enum pb_line { PB_LINE, PB_LINE_END, PB_LINE_INTERRUPT };

/* The path of the history is copied; NULL for none. */
void pb_lineedit_open(struct pb_lineedit *e, const char *history_path);
void pb_lineedit_close(struct pb_lineedit *e);
/* Reads a line without its newline into *line. PB_LINE_END at Ctrl-D or the end of input. */
enum pb_line pb_lineedit_read(struct pb_lineedit *e, const char *prompt, struct pb_buf *line);
/* Remembers a line, here and in the file. */
void pb_lineedit_remember(struct pb_lineedit *e, const char *line);

/*
 * The editing itself, apart from the terminal so that it can be tested: takes
 * one key at a time.
 */
enum pb_key {
    PB_KEY_LEFT = 0x110000, /* beyond Unicode */
    PB_KEY_RIGHT,
    PB_KEY_UP,
    PB_KEY_DOWN,
    PB_KEY_HOME,
    PB_KEY_END,
    PB_KEY_DELETE,
    PB_KEY_WORD_LEFT,
    PB_KEY_WORD_RIGHT,
    PB_KEY_NONE,
};

struct pb_edit {
    const struct pb_lineedit *of;
    struct pb_buf text;
    size_t at;       /* cursor, in bytes */
    size_t from;     /* history entry shown; count: the new line */
    struct pb_buf kept; /* the new line while history is shown */
    struct pb_buf cut;  /* Ctrl-K, Ctrl-U, Ctrl-W; Ctrl-Y puts it back */
};

enum pb_edit_step { PB_EDIT_GO_ON, PB_EDIT_DONE, PB_EDIT_EOF, PB_EDIT_CANCEL, PB_EDIT_TAB,
                    PB_EDIT_CLEAR };

/* key: a Unicode character, a control character or an enum pb_key. */
enum pb_edit_step pb_edit_key(struct pb_edit *e, int key);
void pb_edit_insert(struct pb_edit *e, const char *text, size_t len);
void pb_edit_finish(struct pb_edit *e);

#endif
