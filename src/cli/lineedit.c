#include "cli/lineedit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "show/print.h"
#include "host/alloc.h"

#define HISTORY_MAX 1000
#define ESCAPE 27
#define ESCAPE_MS 50 /* a lone Escape is not followed by more */

/* What the terminal was like. A signal that ends the tool must find it. */
static struct termios old_mode;
static volatile sig_atomic_t mode_changed;

static void restore_mode(void)
{
    if (mode_changed)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &old_mode);
    mode_changed = 0;
}

static void on_end(int signo)
{
    restore_mode();
    signal(signo, SIG_DFL);
    raise(signo);
}

/* Keys one by one and unseen; with signals Ctrl-C is one, without it is a key like any other. */
static bool set_mode(bool signals)
{
    struct termios mode = old_mode;

    mode.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IXON | ISTRIP);
    mode.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN);
    if (!signals)
        mode.c_lflag &= ~(tcflag_t)ISIG;
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    mode_changed = 1;
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0;
}

static void add_history(struct pb_lineedit *e, const char *line, size_t len)
{
    char *copy = pb_alloc_resize(NULL, len + 1);

    memcpy(copy, line, len);
    copy[len] = '\0';
    if (e->count == HISTORY_MAX) {
        free(e->history[0]);
        memmove(e->history, e->history + 1, --e->count * sizeof *e->history);
    }
    e->history = pb_alloc_resize(e->history, (e->count + 1) * sizeof *e->history);
    e->history[e->count++] = copy;
}

static void load_history(struct pb_lineedit *e)
{
    FILE *f = e->history_path ? fopen(e->history_path, "re") : NULL;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    while (f && (n = getline(&line, &cap, f)) > 0)
        add_history(e, line, strcspn(line, "\n"));
    free(line);
    if (f)
        fclose(f);
}

void pb_lineedit_open(struct pb_lineedit *e, const char *history_path)
{
    const char *term = getenv("TERM");

    *e = (struct pb_lineedit){0};
    e->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
                  !(term && strcmp(term, "dumb") == 0) &&
                  tcgetattr(STDIN_FILENO, &old_mode) == 0;
    if (!e->terminal)
        return;
    signal(SIGINT, on_end);
    signal(SIGTERM, on_end);
    signal(SIGHUP, on_end);
    e->terminal = set_mode(true);
    if (!history_path)
        return;
    e->history_path = pb_alloc_resize(NULL, strlen(history_path) + 1);
    strcpy(e->history_path, history_path);
    load_history(e);
}

void pb_lineedit_close(struct pb_lineedit *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->history[i]);
    free(e->history);
    free(e->history_path);
    pb_buf_finish(&e->ahead);
    restore_mode();
    *e = (struct pb_lineedit){0};
}

void pb_lineedit_remember(struct pb_lineedit *e, const char *line)
{
    FILE *f;

    if (!e->terminal || !line[strspn(line, " \t")] ||
        (e->count && strcmp(e->history[e->count - 1], line) == 0))
        return;
    add_history(e, line, strlen(line));
    f = e->history_path ? fopen(e->history_path, "ae") : NULL;
    if (!f)
        return;
    fchmod(fileno(f), 0600);
    fprintf(f, "%s\n", line);
    fclose(f);
}

/* One line of a pipe or a file. */
static enum pb_line read_plain(struct pb_lineedit *e, struct pb_buf *line)
{
    for (;;) {
        char *end = e->ahead.len ? memchr(e->ahead.data, '\n', e->ahead.len) : NULL;
        char piece[4096];
        size_t len, used;
        ssize_t n;

        if (end || (e->ended && e->ahead.len)) {
            len = end ? (size_t)(end - e->ahead.data) : e->ahead.len;
            used = len + (end != NULL);
            pb_buf_add(line, e->ahead.data, len);
            memmove(e->ahead.data, e->ahead.data + used, e->ahead.len - used);
            e->ahead.len -= used;
            return PB_LINE;
        }
        if (e->ended)
            return PB_LINE_END;
        n = read(STDIN_FILENO, piece, sizeof piece);
        if (n > 0)
            pb_buf_add(&e->ahead, piece, (size_t)n);
        else if (n == 0 || errno != EINTR)
            e->ended = true;
    }
}

static void put(const char *text, size_t len)
{
    ssize_t n = write(STDOUT_FILENO, text, len);

    (void)n; /* a terminal that went away shows at the next read */
}

static int read_byte(int wait_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char c;
    ssize_t n;

    if (wait_ms >= 0 && poll(&p, 1, wait_ms) <= 0)
        return -1;
    do
        n = read(STDIN_FILENO, &c, 1);
    while (n < 0 && errno == EINTR);
    return n == 1 ? c : -1;
}

/* What follows Escape: "[A", "OH", "[3~", "[1;5C", or a letter typed with Alt. */
static int read_escape(void)
{
    char text[8];
    size_t n = 0;
    int c = read_byte(ESCAPE_MS);

    if (c != '[' && c != 'O')
        return c == 'b' ? PB_KEY_WORD_LEFT : c == 'f' ? PB_KEY_WORD_RIGHT : PB_KEY_NONE;
    do {
        c = read_byte(ESCAPE_MS);
        if (c < 0)
            return PB_KEY_NONE;
        if (n < sizeof text - 1)
            text[n++] = (char)c;
    } while (c < 0x40);
    text[n] = '\0';
    switch (c) {
    case 'A': return PB_KEY_UP;
    case 'B': return PB_KEY_DOWN;
    case 'C': return n > 1 ? PB_KEY_WORD_RIGHT : PB_KEY_RIGHT;
    case 'D': return n > 1 ? PB_KEY_WORD_LEFT : PB_KEY_LEFT;
    case 'H': return PB_KEY_HOME;
    case 'F': return PB_KEY_END;
    case '~':
        return text[0] == '3' ? PB_KEY_DELETE
               : text[0] == '1' || text[0] == '7' ? PB_KEY_HOME
               : text[0] == '4' || text[0] == '8' ? PB_KEY_END
                                                  : PB_KEY_NONE;
    default: return PB_KEY_NONE;
    }
}

/* One key; -1 when the terminal is gone. */
static int read_key(void)
{
    int c = read_byte(-1), more, value;

    if (c == ESCAPE)
        return read_escape();
    if (c < 0x80)
        return c;
    more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    value = c & (0x3f >> more);
    while (more-- > 0) {
        c = read_byte(ESCAPE_MS);
        if (c < 0 || (c & 0xc0) != 0x80)
            return PB_KEY_NONE;
        value = value << 6 | (c & 0x3f);
    }
    return value < PB_KEY_LEFT ? value : PB_KEY_NONE;
}

static size_t columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 80;
}

/* The part of the line around the cursor that fits, with the cursor in its place. */
static void redraw(const struct pb_edit *e, const char *prompt)
{
    struct pb_arena a = PB_ARENA_INIT;
    const char *text = e->text.data ? e->text.data : "";
    size_t room = columns() - strlen(prompt) - 1, from = 0, to = e->text.len;
    struct pb_buf out = PB_BUF_INIT;
    size_t cursor;

    while ((cursor = pb_text_width(pb_arena_strndup(&a, text + from, e->at - from))) > room)
        do
            from++;
        while ((text[from] & 0xc0) == 0x80);
    while (to > e->at && pb_text_width(pb_arena_strndup(&a, text + from, to - from)) > room)
        do
            to--;
        while ((text[to] & 0xc0) == 0x80);
    pb_buf_printf(&out, "\r%s", prompt);
    pb_buf_add(&out, text + from, to - from);
    pb_buf_printf(&out, "\x1b[K\r\x1b[%zuC", strlen(prompt) + cursor);
    put(out.data, out.len);
    pb_buf_finish(&out);
    pb_arena_finish(&a);
}

static size_t common_prefix(char **words, size_t n)
{
    size_t len = strlen(words[0]);

    for (size_t i = 1; i < n; i++) {
        size_t same = 0;

        while (same < len && words[i][same] == words[0][same])
            same++;
        len = same;
    }
    return len;
}

/* All candidates, in columns, under the line. */
static void list_words(char **words, size_t n)
{
    struct pb_buf out = PB_BUF_INIT;
    size_t width = 0, per_line;

    for (size_t i = 0; i < n; i++) {
        const char *dot = strrchr(words[i], '.');

        words[i] = dot ? (char *)dot + 1 : words[i];
        if (strlen(words[i]) > width)
            width = strlen(words[i]);
    }
    per_line = columns() / (width + 2);
    for (size_t i = 0; i < n; i++)
        pb_buf_printf(&out, "%s%-*s", i % (per_line ? per_line : 1) ? "  " : "\r\n", (int)width,
                      words[i]);
    pb_buf_puts(&out, "\r\n");
    put(out.data, out.len);
    pb_buf_finish(&out);
}

static void complete(struct pb_lineedit *e, struct pb_edit *edit)
{
    struct pb_arena a = PB_ARENA_INIT;
    char *text = pb_arena_strndup(&a, edit->text.data ? edit->text.data : "", edit->at);
    size_t word = edit->at, n = 0, len;
    char **words = NULL;

    if (!text[strspn(text, " \t")]) {
        pb_edit_insert(edit, "    ", 4);
        goto out;
    }
    while (word && (text[word - 1] == '.' || text[word - 1] == '_' || text[word - 1] == '%' ||
                    (text[word - 1] & 0x80) || (text[word - 1] >= '0' && text[word - 1] <= '9') ||
                    ((text[word - 1] | 32) >= 'a' && (text[word - 1] | 32) <= 'z')))
        word--;
    if (e->complete)
        n = e->complete(text, &a, &words, e->arg);
    if (!n)
        goto out;
    len = common_prefix(words, n);
    if (len > edit->at - word && strncmp(words[0], text + word, edit->at - word) == 0)
        pb_edit_insert(edit, words[0] + (edit->at - word), len - (edit->at - word));
    else if (n > 1)
        list_words(words, n);
out:
    pb_arena_finish(&a);
}

static enum pb_line edit_line(struct pb_lineedit *e, const char *prompt, struct pb_buf *line)
{
    struct pb_edit edit = {.of = e, .from = e->count};
    enum pb_edit_step step = PB_EDIT_GO_ON;
    enum pb_line result;

    while (step != PB_EDIT_DONE && step != PB_EDIT_EOF && step != PB_EDIT_CANCEL) {
        int key;

        redraw(&edit, prompt);
        key = read_key();
        step = key < 0 ? PB_EDIT_EOF : pb_edit_key(&edit, key);
        if (step == PB_EDIT_TAB)
            complete(e, &edit);
        if (step == PB_EDIT_CLEAR)
            put("\x1b[H\x1b[2J", 7);
    }
    edit.at = edit.text.len;
    redraw(&edit, prompt);
    put(step == PB_EDIT_CANCEL ? "^C\r\n" : "\r\n", step == PB_EDIT_CANCEL ? 4 : 2);
    pb_buf_add(line, edit.text.data, edit.text.len);
    result = step == PB_EDIT_DONE  ? PB_LINE
             : step == PB_EDIT_EOF ? PB_LINE_END
                                   : PB_LINE_INTERRUPT;
    pb_edit_finish(&edit);
    return result;
}

enum pb_line pb_lineedit_read(struct pb_lineedit *e, const char *prompt, struct pb_buf *line)
{
    enum pb_line result;

    pb_buf_clear(line);
    if (!e->terminal || !set_mode(false))
        return read_plain(e, line);
    result = edit_line(e, prompt, line);
    set_mode(true);
    return result;
}
