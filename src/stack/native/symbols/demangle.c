/*
 * demangle.c - C++ names that a person can read.
 *
 * The return type, the parameters and the compiler's clone marks go; what is
 * left in brackets is shortened from the inside out until the name fits.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/buf.h"
#include "stack/native/native.h"

#define MANGLED_MAX 32768 /* longer names only serve to exhaust the demangler */
/* A name of 300 bytes can stand for gigabytes: each part is twice the last. */
#define FULL_MAX (256u << 10)
#define ELLIPSIS "…"

/* Of GCC's C++ library, which has no header for it. The name comes in pieces, none allocated. */
extern int __gcclibcxx_demangle_callback(const char *mangled,
                                         void (*piece)(const char *text, size_t len, void *arg),
                                         void *arg);

struct demangled {
    struct pb_buf text;
    jmp_buf too_long;
};

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/*
 * At "operator": the length of the word and its symbol, whose brackets are no
 * brackets. 0 elsewhere.
 */
static size_t operator_length(const char *begin, const char *p)
{
    static const char *const symbols[] = {"()", "<=>", "<<=", ">>=", "->*", "->",
                                          "<<", ">>",  "<=",  ">=",  "<",   ">"};
    size_t len = strlen("operator");

    if (!starts_with(p, "operator") || is_word_char(p[len]) || (p > begin && is_word_char(p[-1])))
        return 0;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (starts_with(p + len, symbols[i]))
            return len + strlen(symbols[i]);
    }
    return len;
}

/* Marks in one demangled name, found in one scan. */
struct marks {
    const char *params; /* the parameter list's bracket, NULL when there is none */
    const char *name;   /* behind the return type */
};

static void scan(const char *s, struct marks *ret)
{
    int depth = 0;
    bool in_operator = false;

    ret->params = NULL;
    ret->name = s;
    for (const char *p = s; *p;) {
        size_t op = operator_length(s, p);

        if (op) {
            in_operator |= depth == 0;
            p += op;
            continue;
        }
        if (depth == 0 && *p == '(' && !starts_with(p, "(anonymous"))
            ret->params = p;
        if (depth == 0 && *p == ' ' && !in_operator && !ret->params)
            ret->name = p + 1;
        if (depth == 0 && *p == ':' && ret->params) /* a function's local: its name goes on */
            ret->params = NULL;
        if (strchr("<({[", *p))
            depth++;
        else if (strchr(">)}]", *p) && depth > 0)
            depth--;
        p++;
    }
}

/* Words whose brackets are part of a name; their length at p, or 0. */
static size_t fixed_length(const char *begin, const char *p)
{
    static const char anonymous[] = "(anonymous namespace)";

    return starts_with(p, anonymous) ? sizeof anonymous - 1 : operator_length(begin, p);
}

/* Copies a name, what stands deeper than `levels` in brackets replaced by an ellipsis. */
static void put_shortened(struct pb_buf *out, const char *s, const char *end, int levels)
{
    int depth = 0;

    for (const char *p = s; p < end;) {
        size_t fixed = fixed_length(s, p);

        if (fixed) {
            if (depth <= levels)
                pb_buf_add(out, p, fixed);
            p += fixed;
            continue;
        }
        if (depth > 0 && (*p == ')' || (*p == '>' && p[-1] != '-')))
            depth--;
        if (depth <= levels)
            pb_buf_putc(out, *p);
        if (*p == '<' || *p == '(') {
            if (depth == levels && p[1] != ')')
                pb_buf_puts(out, ELLIPSIS);
            depth++;
        }
        p++;
    }
}

/* A cut never falls inside a character of several bytes. */
static void cut(struct pb_buf *b, size_t max)
{
    size_t len = max > strlen(ELLIPSIS) ? max - strlen(ELLIPSIS) : 0;

    while (len > 0 && ((unsigned char)b->data[len] & 0xc0) == 0x80)
        len--;
    b->data[len] = 0;
    b->len = len;
    pb_buf_puts(b, ELLIPSIS);
}

/* Rust's old scheme ends in a hash, written like C++. */
static const char *without_hash(const char *s, const char *end)
{
    const char *hash = end - strlen("::h0123456789abcdef");

    if (hash <= s || !starts_with(hash, "::h") ||
        strspn(hash + 3, "0123456789abcdef") != (size_t)(end - hash) - 3)
        return end;
    return hash;
}

static char *readable(struct pb_arena *a, char *full, size_t max)
{
    struct pb_buf out = PB_BUF_INIT;
    char *clone = strstr(full, " [clone ");
    const char *end;
    struct marks m;
    char *ret;

    if (clone)
        *clone = 0;
    end = full + strlen(full);
    scan(full, &m);
    if (m.params && m.params > m.name)
        end = m.params;
    end = without_hash(m.name, end);
    for (int levels = 4; levels >= 0; levels--) {
        pb_buf_clear(&out);
        put_shortened(&out, m.name, end, levels == 4 ? 1000 : levels);
        if (out.len <= max)
            break;
    }
    if (out.len > max)
        cut(&out, max);
    ret = pb_arena_strndup(a, out.data ? out.data : "", out.len);
    pb_buf_finish(&out);
    return ret;
}

/* C names: no symbol version, no longer than asked. */
static char *plain(struct pb_arena *a, const char *symbol, size_t max)
{
    size_t len = strcspn(symbol, "@");

    if (len <= max)
        return pb_arena_strndup(a, symbol, len);
    return pb_arena_printf(a, "%.*s" ELLIPSIS, (int)(max > 3 ? max - 3 : 0), symbol);
}

static void add_piece(const char *text, size_t len, void *arg)
{
    struct demangled *d = arg;

    if (d->text.len + len > FULL_MAX)
        longjmp(d->too_long, 1); /* it cannot be told to stop, and holds nothing */
    pb_buf_add(&d->text, text, len);
}

static bool demangle(struct demangled *d, const char *symbol)
{
    return starts_with(symbol, "_Z") && strnlen(symbol, MANGLED_MAX) < MANGLED_MAX &&
           setjmp(d->too_long) == 0 &&
           __gcclibcxx_demangle_callback(symbol, add_piece, d) == 0 && d->text.len;
}

char *pb_demangle(struct pb_arena *a, const char *symbol, size_t max)
{
    struct demangled d = {.text = PB_BUF_INIT};
    char *ret = demangle(&d, symbol) ? readable(a, d.text.data, max) : plain(a, symbol, max);

    pb_buf_finish(&d.text);
    return ret;
}
