#include "host/net/http.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_token(unsigned char c)
{
    return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/*
 * Looks for the empty line. Bytes that no head can contain end the search at once, so that
 * whoever speaks something else is told before the deadline.
 */
static long find_end(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];

        if (c == '\n') {
            if (i == 0 || data[i - 1] != '\r')
                return -400;
            if (i >= 3 && data[i - 2] == '\n')
                return (long)i + 1;
        } else if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7f ||
                   (i && data[i - 1] == '\r')) {
            return -400;
        }
    }
    return 0;
}

/* Cuts the next line off; its "\r\n" is known to be there. */
static char *next_line(char **at)
{
    char *line = *at, *end = strstr(line, "\r\n");

    *end = '\0';
    *at = end + 2;
    return line;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX in place, and '+' where that means a blank. False for nonsense and for NUL. */
static bool decode(char *s, bool plus)
{
    char *to = s;

    for (; *s; s++) {
        char c = *s;

        if (c == '%') {
            int high = hex(s[1]), low = high < 0 ? -1 : hex(s[2]);

            if (low < 0 || high * 16 + low == 0)
                return false;
            c = (char)(high * 16 + low);
            s += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

static int parse_version(struct pb_http_head *h, const char *text)
{
    if (strncmp(text, "HTTP/", 5) != 0)
        return -400;
    if (strcmp(text + 5, "1.1") != 0 && strcmp(text + 5, "1.0") != 0)
        return -505;
    h->http_1_0 = text[7] == '0';
    return 0;
}

static int parse_request_line(struct pb_http_head *h, char *line)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    char *query;
    int rc;

    if (!version || target == line)
        return -400;
    *target++ = '\0';
    *version++ = '\0';
    for (const char *p = line; *p; p++)
        if (!is_token((unsigned char)*p))
            return -400;
    rc = parse_version(h, version);
    if (rc < 0)
        return rc;
    if (*target != '/' || strpbrk(target, "#\t"))
        return -400;
    query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    if (!decode(target, false))
        return -400;
    h->method = line;
    h->path = target;
    h->query = query ? query : "";
    return 0;
}

static int parse_status_line(struct pb_http_head *h, char *line)
{
    char *status = strchr(line, ' ');
    int rc;

    if (!status)
        return -400;
    *status++ = '\0';
    rc = parse_version(h, line);
    if (rc < 0)
        return rc;
    for (int i = 0; i < 3; i++) {
        if (!isdigit((unsigned char)status[i]))
            return -400;
        h->status = h->status * 10 + (status[i] - '0');
    }
    return status[3] == '\0' || status[3] == ' ' ? 0 : -400;
}

static int parse_header(struct pb_http_head *h, char *line)
{
    char *colon = strchr(line, ':'), *value, *end;

    if (!colon || colon == line)
        return -400;
    for (const char *p = line; p < colon; p++)
        if (!is_token((unsigned char)*p))
            return -400;
    if (h->nheaders == PB_HTTP_HEADERS_MAX)
        return -431;
    *colon = '\0';
    value = colon + 1 + strspn(colon + 1, " \t");
    end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    h->headers[h->nheaders++] = (struct pb_http_header){line, value};
    return 0;
}

static int parse_length(struct pb_http_head *h, const char *value)
{
    int64_t v = 0;

    if (h->length >= 0 || !*value || strlen(value) > 18)
        return -400;
    for (; *value; value++) {
        if (!isdigit((unsigned char)*value))
            return -400;
        v = v * 10 + (*value - '0');
    }
    h->length = v;
    return 0;
}

bool pb_http_lists(const char *value, const char *word)
{
    size_t len = strlen(word);

    while (value && *value) {
        size_t n;

        value += strspn(value, ", \t");
        n = strcspn(value, ", \t;");
        if (n == len && strncasecmp(value, word, n) == 0)
            return true;
        value += strcspn(value, ",");
    }
    return false;
}

/* Behind a value: blanks, then its parameters, each "; name=value" or "; name=\"value\"". */
static bool are_parameters(const char *p)
{
    while (*p) {
        size_t n;

        p += strspn(p, " \t");
        if (*p != ';')
            return !*p;
        p += 1 + strspn(p + 1, " \t");
        for (n = 0; is_token((unsigned char)p[n]);)
            n++;
        if (n == 0 || p[n] != '=')
            return false;
        p += n + 1;
        if (*p == '"') {
            for (p++; *p && *p != '"'; p++)
                if (*p == '\\' && p[1])
                    p++;
            if (*p++ != '"')
                return false;
        } else {
            for (n = 0; is_token((unsigned char)p[n]);)
                n++;
            if (n == 0)
                return false;
            p += n;
        }
    }
    return true;
}

bool pb_http_is_type(const char *value, const char *type)
{
    size_t len = strlen(type);

    return value && strncasecmp(value, type, len) == 0 && are_parameters(value + len);
}

/* Headers that may stand there once: of two, different readers would believe different ones. */
static bool is_single(const char *name)
{
    static const char *const names[] = {
        "Host",  "Content-Type", "Content-Length",  "Transfer-Encoding", "Expect",
        "Origin", "Upgrade",     "Authorization",   "X-Probing-Token",   "Sec-Fetch-Site",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool has_doubles(const struct pb_http_head *h)
{
    for (size_t i = 0; i < h->nheaders; i++)
        if (is_single(h->headers[i].name) &&
            pb_http_header(h, h->headers[i].name) != h->headers[i].value)
            return true;
    return false;
}

/* What the headers say of the message itself. */
static int read_meaning(struct pb_http_head *h, bool request)
{
    if (request && has_doubles(h))
        return -400;
    h->keep_alive = !h->http_1_0;
    for (size_t i = 0; i < h->nheaders; i++) {
        const char *name = h->headers[i].name, *value = h->headers[i].value;
        int rc = 0;

        if (strcasecmp(name, "Content-Length") == 0) {
            rc = parse_length(h, value);
        } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
            rc = h->chunked || h->http_1_0 ? -400 : strcasecmp(value, "chunked") ? -501 : 0;
            h->chunked = true;
        } else if (strcasecmp(name, "Connection") == 0) {
            h->keep_alive = pb_http_lists(value, "close")        ? false
                            : pb_http_lists(value, "keep-alive") ? true
                                                                 : h->keep_alive;
            h->upgrade |= pb_http_lists(value, "upgrade");
        } else if (strcasecmp(name, "Expect") == 0) {
            h->expect_continue = strcasecmp(value, "100-continue") == 0;
        }
        if (rc < 0)
            return rc;
    }
    h->upgrade = h->upgrade && pb_http_header(h, "Upgrade");
    if (h->chunked && h->length >= 0)
        return -400;
    return request && !h->http_1_0 && !pb_http_header(h, "Host") ? -400 : 0;
}

long pb_http_parse(struct pb_http_head *h, char *data, size_t len, bool request)
{
    size_t skip = 0;
    long end;
    char *at;
    int rc;

    /* Some clients send an empty line behind a body. */
    while (request && len - skip >= 2 && skip < 8 && memcmp(data + skip, "\r\n", 2) == 0)
        skip += 2;
    end = find_end(data + skip, len - skip < PB_HTTP_HEAD_MAX ? len - skip : PB_HTTP_HEAD_MAX);
    if (end == 0 && len - skip >= PB_HTTP_HEAD_MAX)
        return memchr(data + skip, '\n', PB_HTTP_HEAD_MAX) || !request ? -431 : -414;
    if (end <= 0)
        return end;
    *h = (struct pb_http_head){.length = -1};
    at = data + skip;
    data[skip + (size_t)end - 2] = '\0'; /* the empty line */
    rc = request ? parse_request_line(h, next_line(&at)) : parse_status_line(h, next_line(&at));
    while (rc == 0 && *at)
        rc = parse_header(h, next_line(&at));
    if (rc == 0)
        rc = read_meaning(h, request);
    return rc < 0 ? rc : (long)skip + end;
}

const char *pb_http_header(const struct pb_http_head *h, const char *name)
{
    for (size_t i = 0; i < h->nheaders; i++)
        if (strcasecmp(h->headers[i].name, name) == 0)
            return h->headers[i].value;
    return NULL;
}

char *pb_http_param(const struct pb_http_head *h, const char *name, struct pb_arena *a)
{
    const char *at = h->query;

    while (at && *at) {
        size_t len = strcspn(at, "&");
        char *pair = pb_arena_strndup(a, at, len), *value = strchr(pair, '=');

        if (value)
            *value++ = '\0';
        if (decode(pair, true) && strcmp(pair, name) == 0) {
            if (!value)
                return pair + strlen(pair);
            return decode(value, true) ? value : NULL;
        }
        at += len + (at[len] == '&');
    }
    return NULL;
}
