#include "host/net/http.h"

#include <string.h>
#include <strings.h>

/* More in a size than any body we take; a trailer or extension is short, too. */
#define SIZE_DIGITS 8

void pb_http_body_init(struct pb_http_body *b, const struct pb_http_head *h, bool request)
{
    bool none = !request && (h->status / 100 == 1 || h->status == 204 || h->status == 304);

    *b = (struct pb_http_body){.state = PB_BODY_REST};
    if (none) {
        b->state = PB_BODY_DONE;
    } else if (h->chunked) {
        b->state = PB_BODY_SIZE;
    } else if (h->length >= 0 || request) {
        b->left = h->length > 0 ? (uint64_t)h->length : 0;
        b->state = b->left ? PB_BODY_PLAIN : PB_BODY_DONE;
    }
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The line with the size is complete. */
static bool begin_chunk(struct pb_http_body *b)
{
    if (b->digits == 0)
        return false;
    b->state = b->left ? PB_BODY_CHUNK : PB_BODY_TRAILER;
    b->digits = b->extra = 0;
    if (!b->left)
        b->trailer_len = 0;
    b->blank = true;
    return true;
}

/* One byte of what stands around the chunks; false when it makes no sense there. */
static bool step(struct pb_http_body *b, char c)
{
    bool end = b->cr && c == '\n';

    if (b->cr && !end)
        return false;
    b->cr = c == '\r';
    if (c == '\n' && !end)
        return false;
    if (b->cr)
        return true;
    switch (b->state) {
    case PB_BODY_SIZE:
        if (end)
            return begin_chunk(b);
        if (hex(c) >= 0 && ++b->digits <= SIZE_DIGITS) {
            b->left = b->left << 4 | (unsigned)hex(c);
            return true;
        }
        b->state = PB_BODY_EXTRA;
        b->trailer_len = 0;
        return b->digits > 0 && (c == ';' || c == ' ' || c == '\t');
    case PB_BODY_EXTRA:
        if (end)
            return begin_chunk(b);
        if (b->trailer)
            b->trailer[b->trailer_len++] = c;
        return ++b->extra < PB_HTTP_TRAILER_MAX;
    case PB_BODY_BEHIND:
        b->state = PB_BODY_SIZE;
        return end;
    case PB_BODY_TRAILER:
        if (end && b->blank)
            b->state = PB_BODY_DONE;
        b->blank = end;
        if (b->trailer)
            b->trailer[b->trailer_len++] = c;
        return ++b->extra < PB_HTTP_TRAILER_MAX;
    default:
        return false;
    }
}

long pb_http_body_feed(struct pb_http_body *b, const char *data, size_t len, const char **ret_at,
                       size_t *ret_len)
{
    size_t used = 0;

    *ret_at = data;
    *ret_len = 0;
    while (used < len && b->state >= PB_BODY_SIZE && b->state != PB_BODY_DONE &&
           b->state != PB_BODY_CHUNK)
        if (!step(b, data[used++]))
            return -1;
    if (b->state == PB_BODY_PLAIN || b->state == PB_BODY_CHUNK || b->state == PB_BODY_REST) {
        size_t n = len - used;

        if (b->state != PB_BODY_REST && n > b->left)
            n = b->left;
        *ret_at = data + used;
        *ret_len = n;
        used += n;
        if (b->state == PB_BODY_REST)
            return (long)used;
        b->left -= n;
        if (b->left == 0)
            b->state = b->state == PB_BODY_PLAIN ? PB_BODY_DONE : PB_BODY_BEHIND;
    }
    return (long)used;
}

const char *pb_http_trailer(char *trailer, const char *name)
{
    size_t len = strlen(name), n;

    for (char *line = trailer; *line; line += n + 1) {
        n = strcspn(line, "\n");
        if (n > len && line[len] == ':' && strncasecmp(line, name, len) == 0) {
            line[n] = '\0';
            return line + len + 1 + strspn(line + len + 1, " \t");
        }
    }
    return NULL;
}
