#include "cli/prompt/lineedit.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "host/text/alloc.h"
#include "display/print.h"

#define HISTORY_MAX 1000

/* Of libtinfo, which libedit needs: is there a description of this terminal? */
int tgetent(char *unused, const char *term);

/* What the terminal was like. A signal that ends the tool between two lines must find it. */
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

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_end);
    mode_changed = 1;
}

static void add_history(struct pb_lineedit *e, const char *line)
{
    HistEvent ev;

    history(e->history, &ev, H_ENTER, line);
}

static void load_history(struct pb_lineedit *e)
{
    FILE *f = e->history_path ? fopen(e->history_path, "re") : NULL;
    char *line = NULL;
    size_t cap = 0;

    while (f && getline(&line, &cap, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        add_history(e, line);
    }
    free(line);
    if (f)
        fclose(f);
}

void pb_lineedit_remember(struct pb_lineedit *e, const char *line)
{
    HistEvent ev;
    FILE *f;

    if (!e->terminal || !line[strspn(line, " \t")] ||
        (history(e->history, &ev, H_FIRST) >= 0 && strcmp(ev.str, line) == 0))
        return;
    add_history(e, line);
    f = e->history_path ? fopen(e->history_path, "ae") : NULL;
    if (!f)
        return;
    fchmod(fileno(f), 0600);
    fprintf(f, "%s\n", line);
    fclose(f);
}

static char *prompt(EditLine *el)
{
    struct pb_lineedit *e;

    el_get(el, EL_CLIENTDATA, &e);
    return (char *)e->prompt;
}

static size_t columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 80;
}

/*
 * Puts the cursor behind the line, on the screen too, so that what is printed next stands there.
 * libedit draws all of it when asked to, wherever the cursor is: that must be where it began.
 */
static void go_to_end(struct pb_lineedit *e)
{
    const LineInfo *line = el_line(e->editor);
    size_t len = (size_t)(line->cursor - line->buffer);
    struct pb_arena a = PB_ARENA_INIT;
    size_t width = strlen(e->prompt) + pb_text_width(pb_arena_strndup(&a, line->buffer, len));

    pb_arena_finish(&a);
    for (size_t row = width / columns(); row > 0; row--)
        fputs("\033[A", stdout);
    fputs("\r", stdout);
    el_cursor(e->editor, (int)(line->lastchar - line->cursor));
    el_set(e->editor, EL_REFRESH);
}

static unsigned char cancel(EditLine *el, int key)
{
    struct pb_lineedit *e;

    (void)key;
    el_get(el, EL_CLIENTDATA, &e);
    go_to_end(e);
    fputs("^C\r\n", stdout);
    e->cancelled = true;
    return CC_NEWLINE;
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
    size_t width = 0, per_line;

    for (size_t i = 0; i < n; i++) {
        const char *dot = strrchr(words[i], '.');

        words[i] = dot ? (char *)dot + 1 : words[i];
        if (strlen(words[i]) > width)
            width = strlen(words[i]);
    }
    per_line = columns() / (width + 2);
    for (size_t i = 0; i < n; i++)
        printf("%s%-*s", i % (per_line ? per_line : 1) ? "  " : "\r\n", (int)width, words[i]);
    fputs("\r\n", stdout);
}

/* Where the word begins that ends at text[len]: a dotted name, or a command of the prompt. */
static size_t word_start(const char *text, size_t len)
{
    static const char signs[] = "._%";

    while (len && (strchr(signs, text[len - 1]) || (text[len - 1] & 0x80) ||
                   (text[len - 1] >= '0' && text[len - 1] <= '9') ||
                   ((text[len - 1] | 32) >= 'a' && (text[len - 1] | 32) <= 'z')))
        len--;
    return len;
}

/* Inserts what all candidates have in common, or shows them when that is nothing. */
static unsigned char use_words(struct pb_lineedit *e, const char *typed, char **words, size_t n)
{
    size_t len = n ? common_prefix(words, n) : 0, have = strlen(typed);

    if (len > have && strncmp(words[0], typed, have) == 0) {
        words[0][len] = '\0';
        el_insertstr(e->editor, words[0] + have);
        return CC_REFRESH;
    }
    if (n < 2)
        return CC_NORM;
    go_to_end(e);
    list_words(words, n);
    return CC_REDISPLAY;
}

static unsigned char complete(EditLine *el, int key)
{
    const LineInfo *line = el_line(el);
    size_t at = (size_t)(line->cursor - line->buffer), n = 0;
    struct pb_arena a = PB_ARENA_INIT;
    char *text = pb_arena_strndup(&a, line->buffer, at), **words = NULL;
    unsigned char rc = CC_REFRESH;
    struct pb_lineedit *e;

    (void)key;
    el_get(el, EL_CLIENTDATA, &e);
    if (!text[strspn(text, " \t")]) {
        el_insertstr(el, "    ");
    } else {
        if (e->complete)
            n = e->complete(text, &a, &words, e->arg);
        rc = use_words(e, text + word_start(text, at), words, n);
    }
    pb_arena_finish(&a);
    return rc;
}

/* For a terminal that nobody describes here (a bare container): all of today's are like this. */
static void assume_ansi(EditLine *el)
{
    static const char *const capabilities[][2] = {
        {"ce", "\033[K"}, {"cd", "\033[J"},  {"nd", "\033[C"},  {"up", "\033[A"},
        {"cl", "\033[H\033[2J"}, {"ho", "\033[H"}, {"am", "yes"}, {"xn", "yes"},
    };

    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
        el_set(el, EL_SETTC, capabilities[i][0], capabilities[i][1], NULL);
}

/* libedit's own keys, the user's, and what it leaves open. */
static void bind_keys(EditLine *el)
{
    static const char *const keys[][2] = {
        {"^R", "em-inc-search-prev"}, {"^S", "em-inc-search-next"}, {"^_", "vi-undo"},
        {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"},
        {"\\e[1~", "ed-move-to-beg"}, {"\\e[7~", "ed-move-to-beg"}, {"\\e[H", "ed-move-to-beg"},
        {"\\e[4~", "ed-move-to-end"}, {"\\e[8~", "ed-move-to-end"}, {"\\e[F", "ed-move-to-end"},
        {"\\e[3~", "ed-delete-next-char"}, {"\\e[A", "ed-prev-history"},
        {"\\e[B", "ed-next-history"}, {"\\e[C", "ed-next-char"}, {"\\e[D", "ed-prev-char"},
    };

    el_set(el, EL_EDITOR, "emacs");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        el_set(el, EL_BIND, keys[i][0], keys[i][1], NULL);
    el_source(el, NULL);
    el_set(el, EL_BIND, "^I", "pb-complete", NULL);
    el_set(el, EL_BIND, "^C", "pb-cancel", NULL);
    el_set(el, EL_BIND, "-a", "^C", "pb-cancel", NULL);
    /* Ctrl-C is a key while a line is edited. Keys that come between two lines wait, unseen. */
    el_set(el, EL_SETTY, "-d", "-isig", NULL);
    el_set(el, EL_SETTY, "-x", "-icanon", NULL);
    el_set(el, EL_SETTY, "-x", "-echo", NULL);
}

/* Letters that are not ASCII: where the environment asks for none, those of UTF-8. */
static void use_utf8(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static bool open_editor(struct pb_lineedit *e)
{
    const char *term = getenv("TERM");
    bool known = term && *term && tgetent(NULL, term) == 1;
    HistEvent ev;

    use_utf8();
    /* About an unknown terminal libedit says more than anybody wants to know. */
    e->errors = known ? stderr : fopen("/dev/null", "we");
    e->editor = e->errors ? el_init("probing", stdin, stdout, e->errors) : NULL;
    e->history = e->editor ? history_init() : NULL;
    if (!e->history)
        return false;
    history(e->history, &ev, H_SETSIZE, HISTORY_MAX);
    el_set(e->editor, EL_CLIENTDATA, e);
    el_set(e->editor, EL_PROMPT, prompt);
    el_set(e->editor, EL_SIGNAL, 1);
    el_set(e->editor, EL_HIST, history, e->history);
    el_set(e->editor, EL_ADDFN, "pb-complete", "complete the word", complete);
    el_set(e->editor, EL_ADDFN, "pb-cancel", "give the line up", cancel);
    if (!known)
        assume_ansi(e->editor);
    bind_keys(e->editor);
    return true;
}

static void close_editor(struct pb_lineedit *e)
{
    if (e->editor)
        el_end(e->editor);
    if (e->history)
        history_end(e->history);
    if (e->errors && e->errors != stderr)
        fclose(e->errors);
}

void pb_lineedit_open(struct pb_lineedit *e, const char *history_path)
{
    const char *term = getenv("TERM");

    *e = (struct pb_lineedit){0};
    e->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
                  !(term && strcmp(term, "dumb") == 0) && tcgetattr(STDIN_FILENO, &old_mode) == 0 &&
                  open_editor(e);
    if (!e->terminal) {
        close_editor(e);
        *e = (struct pb_lineedit){0};
        return;
    }
    catch_signals();
    if (!history_path)
        return;
    e->history_path = pb_alloc_resize(NULL, strlen(history_path) + 1);
    strcpy(e->history_path, history_path);
    load_history(e);
}

void pb_lineedit_close(struct pb_lineedit *e)
{
    close_editor(e);
    restore_mode();
    free(e->history_path);
    pb_buf_finish(&e->ahead);
    *e = (struct pb_lineedit){0};
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

enum pb_line pb_lineedit_read(struct pb_lineedit *e, const char *prompt_text, struct pb_buf *line)
{
    const char *text;
    int len = 0;

    pb_buf_clear(line);
    if (!e->terminal)
        return read_plain(e, line);
    e->prompt = prompt_text;
    e->cancelled = false;
    el_resize(e->editor);
    text = el_gets(e->editor, &len);
    if (e->cancelled)
        return PB_LINE_INTERRUPT;
    if (!text || len <= 0) {
        fputs("\r\n", stdout);
        fflush(stdout);
        return PB_LINE_END;
    }
    pb_buf_add(line, text, strcspn(text, "\n"));
    return PB_LINE;
}
