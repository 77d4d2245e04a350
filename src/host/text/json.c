#include "host/text/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "host/text/buf.h"

struct parser {
    struct pb_arena *a;
    const char *text;
    size_t len, at;
    size_t values; /* made so far */
    int depth;
    struct pb_err *err;
};

static int bad(struct parser *p, const char *what)
{
    return pb_err_set(p->err, PB_USAGE, "JSON: %s at byte %zu", what, p->at);
}

static int peek(const struct parser *p)
{
    return p->at < p->len ? (unsigned char)p->text[p->at] : -1;
}

static void skip_blanks(struct parser *p)
{
    int c;

    while ((c = peek(p)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        p->at++;
}

static int hex4(struct parser *p, uint32_t *ret)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++, p->at++) {
        int c = peek(p);

        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return bad(p, "four hexadecimal digits are missing");
    }
    *ret = v;
    return 0;
}

/* Behind "\u": a character, or half of one, whose other half must follow. */
static int read_unicode(struct parser *p, char **to)
{
    uint32_t c = 0, low = 0;

    if (hex4(p, &c) < 0)
        return -1;
    if (c >= 0xd800 && c <= 0xdfff) {
        size_t behind = p->at;

        /* A half without its other half stands for nothing; writers do produce them. */
        if (c < 0xdc00 && p->len - p->at >= 6 && p->text[p->at] == '\\' &&
            p->text[p->at + 1] == 'u') {
            p->at += 2;
            if (hex4(p, &low) < 0)
                return -1;
            if (low >= 0xdc00 && low <= 0xdfff) {
                *to += pb_utf8_put(*to, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
                return 0;
            }
            p->at = behind;
        }
        c = 0xfffd;
    }
    *to += pb_utf8_put(*to, c);
    return 0;
}

static int read_escape(struct parser *p, char **to)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    int c = peek(p);
    const char *found = c > 0 ? strchr(names, c) : NULL;

    if (c == 'u') {
        p->at++;
        return read_unicode(p, to);
    }
    if (!found)
        return bad(p, "unknown escape");
    p->at++;
    *(*to)++ = meanings[found - names];
    return 0;
}

/* Bytes up to the closing quote, which is what the decoded text takes at most. */
static size_t raw_length(const struct parser *p)
{
    size_t i = p->at;

    while (i < p->len && p->text[i] != '"')
        i += p->text[i] == '\\' ? 2 : 1;
    return i - p->at;
}

static bool is_utf8(const char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n)
        if ((n = pb_utf8_len(s + i)) == 0)
            return false;
    return true;
}

static int read_string(struct parser *p, const char **ret, size_t *ret_len)
{
    char *text, *to;
    size_t start = p->at++;
    int c;

    to = text = pb_arena_alloc(p->a, raw_length(p) + 2);
    while ((c = peek(p)) != '"') {
        if (c < 0)
            return bad(p, "the text ends inside a string");
        if (c < 0x20)
            return bad(p, "control character in a string");
        p->at++;
        if (c != '\\')
            *to++ = (char)c;
        else if (read_escape(p, &to) < 0)
            return -1;
    }
    p->at++;
    *to = '\0';
    if (!is_utf8(text, (size_t)(to - text))) {
        p->at = start;
        return bad(p, "a string that is not UTF-8");
    }
    *ret = text;
    *ret_len = (size_t)(to - text);
    return 0;
}

static bool skip_digits(struct parser *p)
{
    size_t start = p->at;

    while (peek(p) >= '0' && peek(p) <= '9')
        p->at++;
    return p->at > start;
}

static int read_number(struct parser *p, struct pb_json *ret)
{
    size_t start = p->at;
    bool whole = true;

    if (peek(p) == '-')
        p->at++;
    if (peek(p) == '0')
        p->at++;
    else if (!skip_digits(p))
        return bad(p, "no value");
    if (peek(p) == '.') {
        p->at++;
        whole = false;
        if (!skip_digits(p))
            return bad(p, "a digit is missing");
    }
    if ((peek(p) | 32) == 'e') {
        p->at++;
        whole = false;
        if (peek(p) == '+' || peek(p) == '-')
            p->at++;
        if (!skip_digits(p))
            return bad(p, "a digit is missing");
    }
    ret->len = p->at - start;
    ret->s = pb_arena_strndup(p->a, p->text + start, ret->len);
    errno = 0;
    ret->type = PB_J_INT;
    ret->v.i = whole ? strtoll(ret->s, NULL, 10) : 0;
    if (!whole || errno == ERANGE) {
        ret->type = PB_J_REAL;
        ret->v.d = strtod(ret->s, NULL);
    }
    return 0;
}

static int read_word(struct parser *p, const char *word, struct pb_json *ret)
{
    size_t len = strlen(word);

    if (p->len - p->at < len || memcmp(p->text + p->at, word, len) != 0)
        return bad(p, "no value");
    p->at += len;
    ret->type = *word == 'n' ? PB_J_NULL : PB_J_BOOL;
    ret->v.b = *word == 't';
    return 0;
}

static int read_value(struct parser *p, struct pb_json *ret);

static int read_key(struct parser *p, struct pb_json *item)
{
    size_t len;

    if (peek(p) != '"')
        return bad(p, "a key is missing");
    if (read_string(p, &item->key, &len) < 0)
        return -1;
    skip_blanks(p);
    if (peek(p) != ':')
        return bad(p, "':' is missing");
    p->at++;
    skip_blanks(p);
    return 0;
}

/* Array or object; the items are collected in an array that doubles. */
static int read_items(struct parser *p, struct pb_json *ret)
{
    bool object = peek(p) == '{';
    char close = object ? '}' : ']';
    size_t cap = 0;

    ret->type = object ? PB_J_OBJECT : PB_J_ARRAY;
    if (++p->depth > PB_JSON_DEPTH)
        return bad(p, "nested too deeply");
    p->at++;
    skip_blanks(p);
    while (peek(p) != close) {
        struct pb_json item = {0};

        if (ret->n) {
            if (peek(p) != ',')
                return bad(p, object ? "',' or '}' is missing" : "',' or ']' is missing");
            p->at++;
            skip_blanks(p);
        }
        if ((object && read_key(p, &item) < 0) || read_value(p, &item) < 0)
            return -1;
        if (ret->n == cap) {
            size_t more = cap ? cap * 2 : 4;

            ret->items = pb_arena_grow(p->a, ret->items, cap * sizeof item, more * sizeof item);
            cap = more;
        }
        ret->items[ret->n++] = item;
        skip_blanks(p);
    }
    p->at++;
    p->depth--;
    return 0;
}

static int read_value(struct parser *p, struct pb_json *ret)
{
    if (++p->values > PB_JSON_VALUES)
        return bad(p, "too many values");
    switch (peek(p)) {
    case '"':
        ret->type = PB_J_STRING;
        return read_string(p, &ret->s, &ret->len);
    case '{':
    case '[':
        return read_items(p, ret);
    case 't':
        return read_word(p, "true", ret);
    case 'f':
        return read_word(p, "false", ret);
    case 'n':
        return read_word(p, "null", ret);
    case -1:
        return bad(p, "the text ends where a value should be");
    default:
        return read_number(p, ret);
    }
}

int pb_json_parse(struct pb_arena *a, const char *text, size_t len, struct pb_json *ret,
                  struct pb_err *err)
{
    struct parser p = {.a = a, .text = text, .len = len, .err = err};
    struct pb_json found = {0};

    skip_blanks(&p);
    if (read_value(&p, &found) < 0)
        return -1;
    skip_blanks(&p);
    if (p.at < p.len)
        return bad(&p, "something behind the value");
    *ret = found;
    return 0;
}

const struct pb_json *pb_json_get(const struct pb_json *object, const char *key)
{
    if (!object || object->type != PB_J_OBJECT)
        return NULL;
    for (size_t i = object->n; i > 0; i--)
        if (strcmp(object->items[i - 1].key, key) == 0)
            return &object->items[i - 1];
    return NULL;
}

const char *pb_json_str(const struct pb_json *object, const char *key, const char *default_value)
{
    const struct pb_json *v = pb_json_get(object, key);

    return v && v->type == PB_J_STRING ? v->s : default_value;
}

int64_t pb_json_whole(const struct pb_json *object, const char *key, int64_t default_value)
{
    const struct pb_json *v = pb_json_get(object, key);

    return v && v->type == PB_J_INT ? v->v.i : default_value;
}

double pb_json_number(const struct pb_json *object, const char *key, double default_value)
{
    const struct pb_json *v = pb_json_get(object, key);

    if (v && v->type == PB_J_INT)
        return (double)v->v.i;
    return v && v->type == PB_J_REAL ? v->v.d : default_value;
}

bool pb_json_flag(const struct pb_json *object, const char *key, bool default_value)
{
    const struct pb_json *v = pb_json_get(object, key);

    return v && v->type == PB_J_BOOL ? v->v.b : default_value;
}
