/* What each key does to the line. */
#include <string.h>

#include "cli/lineedit.h"

#define CTRL(c) ((c) & 31)

static void set_text(struct pb_edit *e, const char *text)
{
    pb_buf_clear(&e->text);
    pb_buf_puts(&e->text, text ? text : "");
    e->at = e->text.len;
}

void pb_edit_insert(struct pb_edit *e, const char *text, size_t len)
{
    struct pb_buf tail = PB_BUF_INIT;

    pb_buf_add(&tail, e->text.data ? e->text.data + e->at : "", e->text.len - e->at);
    e->text.len = e->at;
    pb_buf_add(&e->text, text, len);
    pb_buf_add(&e->text, tail.data, tail.len);
    e->at += len;
    pb_buf_finish(&tail);
}

static void remove_range(struct pb_edit *e, size_t from, size_t to)
{
    if (from == to)
        return;
    memmove(e->text.data + from, e->text.data + to, e->text.len - to + 1);
    e->text.len -= to - from;
    e->at = from;
}

/* The same, kept for Ctrl-Y. */
static void cut_range(struct pb_edit *e, size_t from, size_t to)
{
    if (from == to)
        return;
    pb_buf_clear(&e->cut);
    pb_buf_add(&e->cut, e->text.data + from, to - from);
    remove_range(e, from, to);
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static size_t before(const struct pb_edit *e, size_t at)
{
    while (at && continues(e->text.data[--at]))
        continue;
    return at;
}

static size_t behind(const struct pb_edit *e, size_t at)
{
    if (at < e->text.len)
        at++;
    while (at < e->text.len && continues(e->text.data[at]))
        at++;
    return at;
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '_' || (c & 0x80);
}

static size_t word_left(const struct pb_edit *e)
{
    size_t at = e->at;

    while (at && !is_word(e->text.data[at - 1]))
        at--;
    while (at && is_word(e->text.data[at - 1]))
        at--;
    return at;
}

static size_t word_right(const struct pb_edit *e)
{
    size_t at = e->at;

    while (at < e->text.len && !is_word(e->text.data[at]))
        at++;
    while (at < e->text.len && is_word(e->text.data[at]))
        at++;
    return at;
}

static void show_history(struct pb_edit *e, int step)
{
    size_t count = e->of->count;

    if ((step < 0 && e->from == 0) || (step > 0 && e->from >= count))
        return;
    if (e->from == count) {
        pb_buf_clear(&e->kept);
        pb_buf_puts(&e->kept, e->text.data ? e->text.data : "");
    }
    e->from += (size_t)step;
    set_text(e, e->from == count ? e->kept.data : e->of->history[e->from]);
}

static void insert_character(struct pb_edit *e, int c)
{
    char utf8[4];
    size_t n = 0;

    if (c < 0x80) {
        utf8[n++] = (char)c;
    } else if (c < 0x800) {
        utf8[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        utf8[n++] = (char)(0xe0 | c >> 12);
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        utf8[n++] = (char)(0xf0 | c >> 18);
        utf8[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80)
        utf8[n++] = (char)(0x80 | (c & 0x3f));
    pb_edit_insert(e, utf8, n);
}

/* Keys that move or change something; false for those that end the line or mean nothing. */
static bool edit(struct pb_edit *e, int key)
{
    switch (key) {
    case CTRL('B'): case PB_KEY_LEFT: e->at = before(e, e->at); return true;
    case CTRL('F'): case PB_KEY_RIGHT: e->at = behind(e, e->at); return true;
    case CTRL('A'): case PB_KEY_HOME: e->at = 0; return true;
    case CTRL('E'): case PB_KEY_END: e->at = e->text.len; return true;
    case PB_KEY_WORD_LEFT: e->at = word_left(e); return true;
    case PB_KEY_WORD_RIGHT: e->at = word_right(e); return true;
    case CTRL('P'): case PB_KEY_UP: show_history(e, -1); return true;
    case CTRL('N'): case PB_KEY_DOWN: show_history(e, 1); return true;
    case CTRL('H'): case 127: remove_range(e, before(e, e->at), e->at); return true;
    case PB_KEY_DELETE: remove_range(e, e->at, behind(e, e->at)); return true;
    case CTRL('K'): cut_range(e, e->at, e->text.len); return true;
    case CTRL('U'): cut_range(e, 0, e->at); return true;
    case CTRL('W'): cut_range(e, word_left(e), e->at); return true;
    case CTRL('Y'): pb_edit_insert(e, e->cut.data, e->cut.len); return true;
    default: return false;
    }
}

enum pb_edit_step pb_edit_key(struct pb_edit *e, int key)
{
    if (edit(e, key))
        return PB_EDIT_GO_ON;
    switch (key) {
    case '\r':
    case '\n':
        return PB_EDIT_DONE;
    case CTRL('C'):
        return PB_EDIT_CANCEL;
    case CTRL('D'):
        if (!e->text.len)
            return PB_EDIT_EOF;
        remove_range(e, e->at, behind(e, e->at));
        return PB_EDIT_GO_ON;
    case CTRL('L'):
        return PB_EDIT_CLEAR;
    case '\t':
        return PB_EDIT_TAB;
    default:
        if (key >= 32 && key < PB_KEY_LEFT)
            insert_character(e, key);
        return PB_EDIT_GO_ON;
    }
}

void pb_edit_finish(struct pb_edit *e)
{
    pb_buf_finish(&e->text);
    pb_buf_finish(&e->kept);
    pb_buf_finish(&e->cut);
}
