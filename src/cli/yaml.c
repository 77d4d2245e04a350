#include "cli/yaml.h"

#include <stdbool.h>
#include <string.h>

/* A mapping that is open: its keys all stand at one indentation. */
struct level {
    size_t indent;
    const char *prefix; /* "probing.eval.", or "" */
};

struct reader {
    struct pb_arena *a;
    struct pb_err *err;
    struct pb_yaml *out;
    struct level levels[PB_YAML_DEPTH];
    size_t depth;        /* of levels in use, at least one */
    const char *pending; /* key without a value so far: "probing.eval." */
    int pending_line;
    int line;
};

static int fail(struct reader *r, const char *what)
{
    return pb_err_set(r->err, PB_USAGE, "line %d: %s", r->line, what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Past the blanks; at the end or at a comment nothing is left. */
static const char *skip_blank(const char *s)
{
    const char *from = s;

    while (is_blank(*s))
        s++;
    return *s == '#' && s > from ? s + strlen(s) : s;
}

static int quoted_double(struct reader *r, const char **s, char *to)
{
    static const char from[] = "\"\\/nt", meant[] = "\"\\/\n\t";
    const char *p = *s + 1;

    for (; *p && *p != '"'; p++) {
        const char *e = from;

        if (*p == '\\') {
            e = p[1] ? strchr(from, *++p) : NULL;
            if (!e)
                return fail(r, "unknown escape in a text");
            *to++ = meant[e - from];
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
    if (!*p)
        return fail(r, "a text has no closing quote");
    *s = p + 1;
    return 0;
}

static int quoted_single(struct reader *r, const char **s, char *to)
{
    const char *p = *s + 1;

    for (; *p && (*p != '\'' || p[1] == '\''); p++) {
        *to++ = *p;
        p += *p == '\'';
    }
    *to = '\0';
    if (!*p)
        return fail(r, "a text has no closing quote");
    *s = p + 1;
    return 0;
}

/* A text that starts at *s with a quote; *s moves behind it. */
static int read_quoted(struct reader *r, const char **s, const char **ret)
{
    char *to = pb_arena_alloc(r->a, strlen(*s) + 1);

    *ret = to;
    return **s == '"' ? quoted_double(r, s, to) : quoted_single(r, s, to);
}

/* The key at *s; *s moves behind its colon. */
static int read_key(struct reader *r, const char **s, const char **ret)
{
    size_t n;

    if (**s == '"' || **s == '\'') {
        if (read_quoted(r, s, ret) < 0)
            return -1;
    } else {
        n = strcspn(*s, ": \t#,[]{}&*!|>'\"%@`");
        *ret = pb_arena_strndup(r->a, *s, n);
        *s += n;
    }
    while (is_blank(**s))
        ++*s;
    if (!**ret || **s != ':' || ((*s)[1] && !is_blank((*s)[1])))
        return fail(r, "expected 'key: value'");
    ++*s;
    return 0;
}

/* What stands behind the colon; NULL when nothing does. */
static int read_value(struct reader *r, const char *s, const char **ret)
{
    size_t n = 0;

    s = skip_blank(s);
    *ret = NULL;
    if (!*s)
        return 0;
    if (*s == '"' || *s == '\'') {
        if (read_quoted(r, &s, ret) < 0)
            return -1;
        return *skip_blank(s) ? fail(r, "something stands behind a text in quotes") : 0;
    }
    if (strchr("[{&*!|>%@`", *s))
        return fail(r, "only plain values are understood, no lists, no {}, no references");
    while (s[n] && !(s[n] == '#' && n && is_blank(s[n - 1])))
        n++;
    while (n && is_blank(s[n - 1]))
        n--;
    *ret = pb_arena_strndup(r->a, s, n);
    if (strstr(*ret, ": ") || (*ret)[n - 1] == ':')
        return fail(r, "two values on one line");
    return 0;
}

static int no_value(struct reader *r)
{
    size_t n = strlen(r->pending) - 1;

    r->line = r->pending_line;
    return pb_err_set(r->err, PB_USAGE, "line %d: '%.*s' has no value", r->line,
                      (int)(n < 80 ? n : 80), r->pending);
}

/* Finds the mapping that a line of this indentation belongs to. */
static int enter_level(struct reader *r, size_t indent)
{
    struct level *top = &r->levels[r->depth - 1];

    if (r->pending && indent > top->indent) {
        if (r->depth == PB_YAML_DEPTH)
            return fail(r, "too many levels");
        r->levels[r->depth++] = (struct level){indent, r->pending};
        r->pending = NULL;
        return 0;
    }
    if (r->pending)
        return no_value(r);
    while (r->depth > 1 && r->levels[r->depth - 1].indent > indent)
        r->depth--;
    if (r->levels[r->depth - 1].indent != indent)
        return fail(r, "the indentation fits no line above");
    return 0;
}

static int add_pair(struct reader *r, const char *key, const char *value)
{
    struct pb_yaml *out = r->out;

    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->v[i].key, key) == 0)
            return pb_err_set(r->err, PB_USAGE, "line %d: '%.80s' stands in line %d already",
                              r->line, key, out->v[i].line);
    if (out->n == PB_YAML_PAIRS)
        return fail(r, "too many keys");
    if (out->n == out->cap) {
        size_t size = sizeof *out->v, cap = out->cap ? 2 * out->cap : 16;

        out->v = pb_arena_grow(r->a, out->v, out->cap * size, cap * size);
        out->cap = cap;
    }
    out->v[out->n++] = (struct pb_yaml_pair){key, value, r->line};
    return 0;
}

static int read_line(struct reader *r, const char *s)
{
    size_t indent = strspn(s, " ");
    const char *key, *value, *prefix;

    s += indent;
    if (!*s || *s == '#' || !*skip_blank(s))
        return 0;
    if (*s == '\t')
        return fail(r, "a tab cannot indent");
    if (*s == '-' && (!s[1] || is_blank(s[1])))
        return fail(r, "lists are not understood");
    if (enter_level(r, indent) < 0 || read_key(r, &s, &key) < 0 || read_value(r, s, &value) < 0)
        return -1;
    prefix = r->levels[r->depth - 1].prefix;
    if (value)
        return add_pair(r, pb_arena_printf(r->a, "%s%s", prefix, key), value);
    r->pending = pb_arena_printf(r->a, "%s%s.", prefix, key);
    r->pending_line = r->line;
    return 0;
}

static bool is_mark(const char *line, const char *mark)
{
    return strncmp(line, mark, 3) == 0 && !*skip_blank(line + 3);
}

int pb_yaml_parse(struct pb_yaml *ret, struct pb_arena *a, const char *text, size_t len,
                  struct pb_err *err)
{
    struct reader r = {.a = a, .err = err, .out = ret, .levels = {{0, ""}}, .depth = 1};
    const char *end = text + len;
    bool begun = false;

    *ret = (struct pb_yaml){0};
    if (len > PB_YAML_MAX)
        return pb_err_set(err, PB_USAGE, "longer than %d KB", PB_YAML_MAX >> 10);
    for (r.line = 1; text < end; r.line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        char *line = pb_arena_strndup(a, text, n);

        text = stop ? stop + 1 : end;
        if (n && line[n - 1] == '\r')
            line[--n] = '\0';
        if (strlen(line) != n)
            return fail(&r, "not text");
        if (is_mark(line, "..."))
            break;
        if (is_mark(line, "---")) {
            if (begun)
                return fail(&r, "a second document");
        } else if (read_line(&r, line) < 0) {
            return -1;
        }
        begun = begun || *line;
    }
    return r.pending ? no_value(&r) : 0;
}
