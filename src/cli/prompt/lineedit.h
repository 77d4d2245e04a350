/*
 * lineedit.h - one line from a terminal: editing, history, completion.
 *
 * Owns: the history and, while a line is read, the terminal's mode.
 * Threads: one.
 * Fails: a terminal that cannot be edited on is read line by line; a history that cannot be kept
 * is only forgotten.
 * Not here: what a line means; the keys, which are libedit's and the user's (~/.editrc).
 *
 * Without a terminal on both sides it reads plain lines and prints no prompt.
 */
#ifndef PB_CLI_PROMPT_LINEEDIT_H
#define PB_CLI_PROMPT_LINEEDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "host/text/arena.h"
#include "host/text/buf.h"

struct editline;
struct history;

/* Fills in what the word in front of the cursor may become; returns how many. */
typedef size_t pb_lineedit_complete(const char *text, struct pb_arena *a, char ***ret, void *arg);

struct pb_lineedit {
    bool terminal;
    struct editline *editor;
    struct history *history;
    FILE *errors;       /* where libedit complains */
    char *history_path; /* NULL: not kept */
    const char *prompt;
    bool cancelled; /* Ctrl-C ended the line */
    pb_lineedit_complete *complete;
    void *arg;
    struct pb_buf ahead; /* plain input that was read beyond the line */
    bool ended;          /* plain input has ended */
};

enum pb_line { PB_LINE, PB_LINE_END, PB_LINE_INTERRUPT };

/* The path of the history is copied; NULL for none. e must stay where it is until it is closed. */
void pb_lineedit_open(struct pb_lineedit *e, const char *history_path);
void pb_lineedit_close(struct pb_lineedit *e);
/* Reads a line without its newline into *line. PB_LINE_END at Ctrl-D or the end of input. */
enum pb_line pb_lineedit_read(struct pb_lineedit *e, const char *prompt, struct pb_buf *line);
/* Remembers a line, here and in the file. */
void pb_lineedit_remember(struct pb_lineedit *e, const char *line);

#endif
