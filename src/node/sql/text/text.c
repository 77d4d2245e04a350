#include "node/sql/text/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Past a block comment, which may hold others. */
static size_t skip_comment(const char *sql, size_t len, size_t i)
{
    size_t depth = 0;

    while (i < len) {
        if (i + 1 < len && sql[i] == '/' && sql[i + 1] == '*') {
            depth++;
            i += 2;
        } else if (i + 1 < len && sql[i] == '*' && sql[i + 1] == '/') {
            i += 2;
            if (--depth == 0)
                break;
        } else {
            i++;
        }
    }
    return i;
}

/*
 * Bytes of the blank at a place, 0 when there is none: ASCII's, Unicode's (White_Space), and those
 * without width that the engine takes for blanks, too.
 */
static size_t blank_at(const char *sql, size_t len, size_t i)
{
    const unsigned char *p = (const unsigned char *)sql + i;
    unsigned code;

    if (i < len && p[0] < 0x80)
        return strchr(" \t\n\v\f\r", p[0]) && p[0] ? 1 : 0;
    if (len - i >= 2 && p[0] == 0xc2)
        return p[1] == 0xa0 || p[1] == 0x85 ? 2 : 0;
    if (len - i < 3 || (p[0] & 0xf0) != 0xe0)
        return 0;
    code = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return code == 0x1680 || (code >= 0x2000 && code <= 0x200b) || code == 0x2028 ||
                   code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x2060 ||
                   code == 0x3000 || code == 0xfeff
               ? 3
               : 0;
}

static size_t skip_blank(const char *sql, size_t len, size_t i)
{
    size_t n;

    for (;;) {
        while (i < len && (n = blank_at(sql, len, i)) > 0)
            i += n;
        if (i + 1 < len && sql[i] == '-' && sql[i + 1] == '-') {
            while (i < len && sql[i] != '\n' && sql[i] != '\r')
                i++;
        } else if (i + 1 < len && sql[i] == '/' && sql[i + 1] == '*') {
            i = skip_comment(sql, len, i);
        } else {
            return i;
        }
    }
}

/* Past a quoted piece; a doubled quote stands for itself, a backslash only where said. */
static size_t skip_quoted(const char *sql, size_t len, size_t i, char quote, bool backslash)
{
    i++;
    while (i < len) {
        if (backslash && sql[i] == '\\' && i + 1 < len) {
            i += 2;
        } else if (sql[i] != quote) {
            i++;
        } else if (i + 1 < len && sql[i + 1] == quote) {
            i += 2;
        } else {
            return i + 1;
        }
    }
    return len;
}

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || (c & 0x80);
}

static bool is_name_part(char c)
{
    return is_name_start(c) || isdigit((unsigned char)c) || c == '$';
}

/* $tag$ … $tag$: length of the opening, 0 when it is none. */
static size_t dollar_tag(const char *sql, size_t len, size_t i)
{
    size_t k = i + 1;

    while (k < len && is_name_part(sql[k]) && sql[k] != '$')
        k++;
    return k < len && sql[k] == '$' && !(k > i + 1 && isdigit((unsigned char)sql[i + 1]))
               ? k + 1 - i
               : 0;
}

static size_t skip_dollars(const char *sql, size_t len, size_t i, size_t tag)
{
    for (size_t k = i + tag; k + tag <= len; k++)
        if (memcmp(sql + k, sql + i, tag) == 0)
            return k + tag;
    return len;
}

static size_t skip_number(const char *sql, size_t len, size_t i)
{
    while (i < len && (isalnum((unsigned char)sql[i]) || sql[i] == '.' || sql[i] == '_' ||
                       ((sql[i] == '+' || sql[i] == '-') && (sql[i - 1] | 32) == 'e')))
        i++;
    return i;
}

struct pb_sql_token pb_sql_next(const char *sql, size_t len, size_t *pos)
{
    size_t i = skip_blank(sql, len, *pos), start = i, tag;
    enum pb_sql_kind kind = PB_SQL_SYMBOL;

    if (i >= len) {
        *pos = len;
        return (struct pb_sql_token){PB_SQL_END, len, 0};
    }
    if (sql[i] == '\'') {
        kind = PB_SQL_STRING;
        i = skip_quoted(sql, len, i, '\'', false);
    } else if ((sql[i] | 32) == 'e' && i + 1 < len && sql[i + 1] == '\'') {
        kind = PB_SQL_STRING;
        i = skip_quoted(sql, len, i + 1, '\'', true);
    } else if (sql[i] == '"') {
        kind = PB_SQL_QUOTED;
        i = skip_quoted(sql, len, i, '"', false);
    } else if (sql[i] == '$' && (tag = dollar_tag(sql, len, i)) > 0) {
        kind = PB_SQL_STRING;
        i = skip_dollars(sql, len, i, tag);
    } else if (is_name_start(sql[i])) {
        kind = PB_SQL_WORD;
        while (i < len && is_name_part(sql[i]) && !blank_at(sql, len, i))
            i++;
    } else if (isdigit((unsigned char)sql[i])) {
        kind = PB_SQL_NUMBER;
        i = skip_number(sql, len, i + 1);
    } else {
        i++;
    }
    *pos = i;
    return (struct pb_sql_token){kind, start, i - start};
}

void pb_sql_plain_blanks(char *sql, size_t len)
{
    size_t pos = 0, end = 0;
    struct pb_sql_token t;

    do {
        t = pb_sql_next(sql, len, &pos);
        for (size_t n; end < t.at; end += n ? n : 1) {
            n = blank_at(sql, len, end);
            if (n > 1 || sql[end] == '\v')
                memset(sql + end, ' ', n);
        }
        end = pos;
    } while (t.kind != PB_SQL_END);
}

struct pb_sql_token pb_sql_peek(const char *sql, size_t len, size_t pos)
{
    return pb_sql_next(sql, len, &pos);
}

bool pb_sql_is(const char *sql, struct pb_sql_token t, const char *word)
{
    return (t.kind == PB_SQL_WORD || t.kind == PB_SQL_SYMBOL) && strlen(word) == t.len &&
           strncasecmp(sql + t.at, word, t.len) == 0;
}

bool pb_sql_name(const char *sql, struct pb_sql_token t, char *buf, size_t cap)
{
    size_t n = 0;

    if (t.kind == PB_SQL_WORD) {
        for (size_t i = 0; i < t.len && n + 1 < cap; i++)
            buf[n++] = sql[t.at + i];
    } else if (t.kind == PB_SQL_QUOTED && t.len >= 2) {
        for (size_t i = 1; i + 1 < t.len && n + 1 < cap; i++) {
            buf[n++] = sql[t.at + i];
            if (sql[t.at + i] == '"')
                i++;
        }
    } else {
        return false;
    }
    buf[n] = 0;
    return true;
}

size_t pb_sql_statement(const char *sql, size_t len, size_t *pos, size_t *ret_at)
{
    struct pb_sql_token t = pb_sql_next(sql, len, pos);
    size_t end;

    while (pb_sql_is(sql, t, ";"))
        t = pb_sql_next(sql, len, pos);
    *ret_at = t.at;
    end = t.at;
    while (t.kind != PB_SQL_END && !pb_sql_is(sql, t, ";")) {
        end = t.at + t.len;
        t = pb_sql_next(sql, len, pos);
    }
    return end - *ret_at;
}

void pb_sql_name_at(const char *sql, size_t len, size_t at, char *buf, size_t cap)
{
    size_t pos = at, n = 0;

    buf[0] = 0;
    for (;;) {
        struct pb_sql_token t = pb_sql_next(sql, len, &pos);

        if (n + 1 >= cap || !pb_sql_name(sql, t, buf + n, cap - n))
            return;
        n += strlen(buf + n);
        if (!pb_sql_is(sql, pb_sql_peek(sql, len, pos), ".") || n + 2 >= cap)
            return;
        pb_sql_next(sql, len, &pos);
        buf[n++] = '.';
        buf[n] = 0;
    }
}

static void put_quoted(struct pb_buf *b, const char *text, char quote)
{
    pb_buf_putc(b, quote);
    for (; *text; text++) {
        if (*text == quote)
            pb_buf_putc(b, quote);
        pb_buf_putc(b, *text);
    }
    pb_buf_putc(b, quote);
}

void pb_sql_literal(struct pb_buf *b, const char *text)
{
    put_quoted(b, text, '\'');
}

void pb_sql_ident(struct pb_buf *b, const char *name)
{
    put_quoted(b, name, '"');
}

void pb_sql_edited_finish(struct pb_sql_edited *e)
{
    pb_buf_finish(&e->text);
    e->nedits = 0;
}

bool pb_sql_insert(struct pb_sql_edited *e, size_t at, const char *s)
{
    size_t add = strlen(s), k = e->nedits;

    if (k == PB_SQL_EDITS_MAX)
        return false;
    pb_buf_add(&e->text, s, add);
    memmove(e->text.data + at + add, e->text.data + at, e->text.len - add - at);
    memcpy(e->text.data + at, s, add);
    while (k > 0 && e->edits[k - 1].at >= at) {
        e->edits[k] = e->edits[k - 1];
        e->edits[k].at += add;
        k--;
    }
    e->edits[k] = (struct pb_sql_edit){at, add};
    e->nedits++;
    return true;
}

size_t pb_sql_origin(const struct pb_sql_edited *e, size_t at)
{
    size_t gone = 0;

    for (size_t i = 0; i < e->nedits; i++) {
        if (e->edits[i].at >= at)
            break;
        gone += at - e->edits[i].at < e->edits[i].len ? at - e->edits[i].at : e->edits[i].len;
    }
    return at - gone;
}
