/*
 * Any bytes as an HTTP message: the head is refused or proper, the same whether it comes at once
 * or in pieces, and a body is never longer than what came.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/buf.h"
#include "host/net/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static void inside(const char *s, const char *from, size_t size)
{
    if (s && (s < from || s >= from + size || strlen(s) > size))
        __builtin_trap();
}

static void check_head(const struct pb_http_head *h, const char *from, size_t size, bool request)
{
    struct pb_arena a = PB_ARENA_INIT;

    if (h->nheaders > PB_HTTP_HEADERS_MAX || (h->chunked && h->length >= 0))
        __builtin_trap();
    if (request && (!h->method || !*h->method || !h->path || !*h->path))
        __builtin_trap();
    if (!request && (h->status < 0 || h->status > 999))
        __builtin_trap();
    for (size_t i = 0; i < h->nheaders; i++) {
        inside(h->headers[i].name, from, size);
        inside(h->headers[i].value, from, size);
        if (strpbrk(h->headers[i].value, "\r\n"))
            __builtin_trap();
    }
    if (request) {
        pb_http_param(h, "target", &a);
        pb_http_param(h, "", &a);
    }
    pb_arena_finish(&a);
}

/* The body in pieces of `step` bytes. */
static bool unpack(const struct pb_http_head *h, const char *data, size_t size, size_t step,
                   bool request, struct pb_buf *out)
{
    struct pb_http_body b;

    pb_http_body_init(&b, h, request);
    for (size_t at = 0; at < size && b.state != PB_BODY_DONE;) {
        size_t give = size - at < step ? size - at : step, len;
        const char *piece;
        long used = pb_http_body_feed(&b, data + at, give, &piece, &len);

        if (used < 0)
            return false;
        if (used == 0 || (size_t)used > give || len > (size_t)used)
            __builtin_trap();
        pb_buf_add(out, piece, len);
        at += (size_t)used;
    }
    return true;
}

static void check_body(const struct pb_http_head *h, const char *data, size_t size, bool request)
{
    struct pb_buf whole = PB_BUF_INIT, bytewise = PB_BUF_INIT;
    bool a = unpack(h, data, size, size + 1, request, &whole);
    bool b = unpack(h, data, size, 1, request, &bytewise);

    if (a != b || whole.len > size ||
        (a && (whole.len != bytewise.len ||
               (whole.len && memcmp(whole.data, bytewise.data, whole.len) != 0))))
        __builtin_trap();
    pb_buf_finish(&whole);
    pb_buf_finish(&bytewise);
}

static void try(const uint8_t *data, size_t size, bool request)
{
    char *copy = malloc(size ? size : 1);
    struct pb_http_head h;
    long n;

    memcpy(copy, data, size);
    n = pb_http_parse(&h, copy, size, request);
    if (n > (long)size || (n < 0 && (n > -400 || n < -505)))
        __builtin_trap();
    if (n == 0 && memcmp(copy, data, size) != 0)
        __builtin_trap();
    if (n > 0) {
        check_head(&h, copy, (size_t)n, request);
        check_body(&h, copy + n, size - (size_t)n, request);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char host[PB_HTTP_NAME_MAX], port[8], text[64] = "";

    memcpy(text, data, size < sizeof text - 1 ? size : sizeof text - 1);
    pb_http_split(text, host, port, NULL);
    try(data, size, true);
    try(data, size, false);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "GET /api/backtrace?target=1&all=%31&x HTTP/1.1\r\nHost: a:1\r\nConnection: keep-alive, "
        "Upgrade\r\nUpgrade: probing-agent\r\n\r\n",
        "POST /api/query HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Bearer x\r\nContent-Length: "
        "16\r\nExpect: 100-continue\r\n\r\n{\"sql\":\"select\"}",
        "POST /q HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1a\r\n"
        "abcdefghijklmnopqrstuvwxyz\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        "HTTP/1.0 404 Not Found\r\n\r\nto the end",
    };
    size_t n;

    if (index < 0 || (size_t)index >= sizeof seeds / sizeof seeds[0])
        return 0;
    n = strlen(seeds[index]);
    if (n > cap)
        return 0;
    memcpy(buf, seeds[index], n);
    return n;
}
