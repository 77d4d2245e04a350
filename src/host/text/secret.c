#include "host/text/secret.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "host/text/buf.h"

#define MASK "***"
#define NAME_MAX_LEN 128

static bool is_one_of(const char *word, size_t len, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == len && strncasecmp(*list, word, len) == 0)
            return true;
    return false;
}

/*
 * The last word of a name, and the one before it: "aws_secret_access_key", "accessKey",
 * "--api-key". Words end at _ - . and where a capital follows a small letter.
 */
struct words {
    const char *last, *before;
    size_t last_len, before_len;
    bool has_secret; /* "secret" or "password" among them */
};

static void split_words(const char *name, size_t len, struct words *w)
{
    static const char *const secret[] = {"secret", "password", "passwd", "passphrase", NULL};
    size_t at = 0;

    *w = (struct words){.last = "", .before = ""};
    while (at < len) {
        size_t end = at;

        while (end < len && isalnum((unsigned char)name[end]) &&
               !(end > at && isupper((unsigned char)name[end]) &&
                 islower((unsigned char)name[end - 1])))
            end++;
        if (end > at) {
            w->before = w->last;
            w->before_len = w->last_len;
            w->last = name + at;
            w->last_len = end - at;
            w->has_secret |= is_one_of(w->last, w->last_len, secret);
        }
        at = end > at && end < len && isalnum((unsigned char)name[end]) ? end : end + 1;
    }
}

/* Does the name say that its value is a secret? Not: token_ids, pad_token, key, password_file. */
static bool is_secret_name(const char *name, size_t len)
{
    static const char *const ends[] = {"password",   "passwd",  "passphrase", "pwd",    "secret",
                                       "secrets",    "token",   "credential", "apikey", "cookie",
                                       "credentials", "authorization", "authtoken", NULL};
    static const char *const no_tokens[] = {"pad",  "bos",  "eos",  "unk",     "sep",   "cls",
                                            "mask", "next", "prev", "special", "start", "end",
                                            "stop", "last", "image", "new", NULL};
    static const char *const keys[] = {"api",     "secret", "access",  "private",   "auth",
                                       "account", "shared", "signing", "encryption", "ssh",
                                       "master",  "wandb",  "license", "session",   "app", NULL};
    static const char *const harmless[] = {"file",  "path", "dir",  "name",   "id",   "length",
                                           "len",   "type", "field", "count", "size", "policy",
                                           "prompt", "arn", "url",  "env",    "var",  NULL};
    struct words w;

    if (len > NAME_MAX_LEN)
        return false;
    split_words(name, len, &w);
    if (is_one_of(w.last, w.last_len, ends))
        return !(strncasecmp(w.last, "token", 5) == 0 && w.before_len &&
                 is_one_of(w.before, w.before_len, no_tokens));
    if (is_one_of(w.last, w.last_len, (const char *const[]){"key", "keys", NULL}))
        return is_one_of(w.before, w.before_len, keys);
    return w.has_secret && !is_one_of(w.last, w.last_len, harmless);
}

/* Tokens that are known by how they begin. */
static const struct form {
    const char *begin;
    size_t least;     /* characters that follow at least */
    const char *also; /* characters that may be in it beside letters and digits */
} forms[] = {
    {"ghp_", 8, ""},         {"gho_", 8, ""},        {"ghu_", 8, ""},       {"ghs_", 8, ""},
    {"ghr_", 8, ""},         {"github_pat_", 8, "_"}, {"glpat-", 8, "_-"},   {"hf_", 20, ""},
    {"sk-", 16, "_-"},       {"xoxa-", 8, "-"},      {"xoxb-", 8, "-"},     {"xoxe-", 8, "-"},
    {"xoxp-", 8, "-"},       {"xoxr-", 8, "-"},      {"xoxs-", 8, "-"},     {"AKIA", 16, ""},
    {"ASIA", 16, ""},        {"AIza", 30, "_-"},     {"ya29.", 16, "_-"},   {"npm_", 30, ""},
    {"pypi-", 30, "_-"},     {"dckr_pat_", 16, "_-"}, {"nvapi-", 16, "_-"}, {"wandb_", 30, "_"},
    {"eyJ", 16, "_-.="},     {"dop_v1_", 30, ""},    {"r8_", 30, ""},       {"gsk_", 30, ""},
};

/* Bytes of a known token that begins here; 0: none. */
static size_t token_at(const char *s)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t begin = strlen(forms[i].begin), n = 0;

        if (strncmp(s, forms[i].begin, begin) != 0)
            continue;
        while (isalnum((unsigned char)s[begin + n]) ||
               (s[begin + n] && strchr(forms[i].also, s[begin + n])))
            n++;
        if (n >= forms[i].least && (s[0] != 'e' || memchr(s, '.', begin + n)))
            return begin + n;
    }
    return 0;
}

/* A private key in PEM: up to its last line, or to the end of the text. */
static size_t pem_at(const char *s)
{
    const char *end;

    if (strncmp(s, "-----BEGIN ", 11) != 0 || !strstr(s, "PRIVATE KEY"))
        return 0;
    end = strstr(s, "-----END ");
    end = end ? strstr(end + 9, "-----") : NULL;
    return end ? (size_t)(end + 5 - s) : strlen(s);
}

/*
 * Behind "://": what is hidden of "user:password@host", from *from to the last @ of the host part.
 * 0: nothing.
 */
static size_t url_secret(const char *s, size_t *from)
{
    size_t whole = strcspn(s, " \t\r\n\"'"), host = strcspn(s, "/?# \t\r\n\"'"), at = 0, colon;
    bool found = false;

    for (size_t i = 0; i < host; i++)
        if (s[i] == '@') {
            at = i;
            found = true;
        }
    colon = strcspn(s, ":@/?# \t\r\n\"'");
    /* A password may hold what ends a host elsewhere; a port is no password. */
    if (!found && s[colon] == ':' && colon + 1 + strspn(s + colon + 1, "0123456789") < host)
        for (size_t i = host; i < whole; i++)
            if (s[i] == '@') {
                at = i;
                found = true;
            }
    if (!found || at == 0)
        return 0;
    *from = s[colon] == ':' && colon < at ? colon + 1 : 0;
    return at - *from;
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Words that stand where a secret would and are none. */
static bool is_no_value(const char *s, size_t len)
{
    static const char *const words[] = {"None", "null", "true", "false", MASK, NULL};

    return len == 0 || is_one_of(s, len, words) || *s == '<' || *s == '$';
}

/* The value that begins at s, without its quotes: *from and its length. */
static size_t value_at(const char *s, size_t *from)
{
    size_t prefix = (*s == 'b' || *s == 'r' || *s == 'u') && (s[1] == '\'' || s[1] == '"');
    char quote = s[prefix], stop[3] = {quote, '\\', '\0'};
    size_t n = 0;

    if (quote != '\'' && quote != '"') {
        *from = 0;
        return strcspn(s, " \t\r\n,;&)]}'\"");
    }
    *from = prefix + 1;
    for (n = *from; s[n] && s[n] != quote; n += strcspn(s + n, stop))
        if (s[n] == '\\')
            n += s[n + 1] ? 2 : 1;
        else if (n == *from)
            n++;
    return n - *from;
}

/*
 * A name at s with a value behind it: "name=value", "'name': 'value'", "name: value", and for an
 * option "--name value". What is hidden of it begins at *from. 0: nothing.
 */
static size_t named_secret(const char *s, size_t *from)
{
    size_t name = 0, at, skip, len;
    bool option = s[0] == '-' && s[1] == '-', quoted;

    while (in_name(s[name]))
        name++;
    if (name == 0 || !is_secret_name(s, name))
        return 0;
    at = name;
    quoted = s[at] == '\'' || s[at] == '"';
    at += quoted;
    skip = strspn(s + at, " ");
    if (s[at + skip] == '=' || (s[at + skip] == ':' && s[at + skip + 1] != ':' &&
                                (quoted || s[at + skip + 1] == ' ' || skip == 0)))
        at += skip + 1;
    else if (!option || !skip || s[at + skip] == '-')
        return 0;
    at += strspn(s + at, " ");
    if (strncasecmp(s + at, "Bearer ", 7) == 0 || strncasecmp(s + at, "Basic ", 6) == 0)
        at += strcspn(s + at, " ") + 1;
    len = value_at(s + at, &skip);
    if (is_no_value(s + at + skip, len) || (strncasecmp(s, "pwd", name) == 0 && s[at] == '/'))
        return 0;
    *from = at + skip;
    return len;
}

/* What is to be hidden from s on: where it begins, and its length; 0 for nothing. */
static size_t secret_at(const char *text, const char *s, size_t *from)
{
    bool begins = s == text || !in_name(s[-1]);
    size_t len = 0;

    *from = 0;
    if (s[0] == ':' && s[1] == '/' && s[2] == '/') {
        len = url_secret(s + 3, from);
        *from += 3;
        return len;
    }
    if (begins && s[0] == '-')
        len = pem_at(s);
    if (!len && begins)
        len = token_at(s);
    if (!len && begins && in_name(s[0]))
        len = named_secret(s, from);
    return len;
}

const char *pb_secret_text(const char *text, struct pb_arena *a)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *done = text, *copy = text;

    for (const char *s = text; *s;) {
        size_t from, len = secret_at(text, s, &from);

        if (!len) {
            s++;
            continue;
        }
        pb_buf_add(&b, done, (size_t)(s + from - done));
        pb_buf_puts(&b, MASK);
        done = s += from + len;
    }
    if (done != text) {
        pb_buf_puts(&b, done);
        copy = pb_arena_strndup(a, b.data, b.len);
    }
    pb_buf_finish(&b);
    return copy;
}

const char *pb_secret_argument(const char *before, const char *word, struct pb_arena *a)
{
    if (strncmp(before, "--", 2) == 0 && *word && *word != '-' &&
        is_secret_name(before, strlen(before)))
        return MASK;
    return pb_secret_text(word, a);
}

const char *pb_secret_command(const char *words, size_t len, const char *text, struct pb_arena *a)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *before = "", *shown;

    /* A process that has set a title of its own has one word, with blanks behind it. */
    if (!words || len == 0 || strlen(words) + 1 >= len)
        return pb_secret_text(text, a);
    for (const char *s = words; s < words + len; s += strlen(s) + 1) {
        if (b.len)
            pb_buf_putc(&b, ' ');
        pb_buf_puts(&b, pb_secret_argument(before, s, a));
        before = s;
    }
    for (size_t i = 0; i < b.len; i++)
        if ((unsigned char)b.data[i] < 0x20 || b.data[i] == 0x7f)
            b.data[i] = ' ';
    while (b.len && b.data[b.len - 1] == ' ')
        b.len--;
    shown = pb_arena_strndup(a, b.data ? b.data : "", b.len);
    pb_buf_finish(&b);
    return shown;
}

/* Is a part of the name a word that nobody should see the value of? */
static bool is_secret_variable(const char *name)
{
    static const char *const parts[] = {"TOKEN", "SECRET", "PASSWORD",   "PASSWD", "PASSPHRASE",
                                        "KEY",   "AUTH",   "CREDENTIAL", "COOKIE", "PRIVATE",
                                        "DSN",   NULL};
    /* PASS and PWD alone would hit PATH-like names and PWD itself. */
    static const char *const ends[] = {"_PASS", "_PWD", "_PW", "_PAT", NULL};
    char upper[256];
    size_t len = strlen(name);

    if (len >= sizeof upper)
        return true;
    for (size_t i = 0; i <= len; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    /* TOKENIZERS_PARALLELISM is a switch. */
    if (strstr(upper, "TOKENIZER"))
        return false;
    for (const char *const *p = parts; *p; p++)
        if (strstr(upper, *p))
            return true;
    for (const char *const *p = ends; *p; p++)
        if (len > strlen(*p) && strcmp(upper + len - strlen(*p), *p) == 0)
            return true;
    return false;
}

const char *pb_secret_env(const char *name, const char *value, struct pb_arena *a)
{
    return *value && is_secret_variable(name) ? MASK : pb_secret_text(value, a);
}

const char *pb_secret_local(const char *name, const char *value, struct pb_arena *a)
{
    const char *text = value + (*value == 'b' && (value[1] == '\'' || value[1] == '"'));

    if ((*text == '\'' || *text == '"') && text[1] != *text && is_secret_name(name, strlen(name)))
        return MASK;
    return pb_secret_text(value, a);
}
