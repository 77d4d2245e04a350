/* http_text.c - words of HTTP: status lines, what stands in an address. */
#include "host/net/http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/buf.h"

const char *pb_http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } known[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status)
            return known[i].text;
    return "Unknown";
}

void pb_http_encode(struct pb_buf *b, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (isalnum(*p) || strchr("-._~", *p))
            pb_buf_putc(b, (char)*p);
        else
            pb_buf_printf(b, "%%%02X", *p);
    }
}

int pb_http_split(const char *address, char *host, char *port, struct pb_err *err)
{
    const char *colon = strrchr(address, ':'), *digits = colon ? colon + 1 : address;
    size_t len = colon ? (size_t)(colon - address) : 0, n = strspn(digits, "0123456789");

    if (len && *address == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    } else if (len && memchr(address, ':', len)) {
        return pb_err_set(err, PB_USAGE, "'%s' is no address: write [%.*s]:%s", address, (int)len,
                          address, digits);
    }
    if (n == 0 || n > 5 || digits[n] || atoi(digits) > 65535)
        return pb_err_set(err, PB_USAGE, "'%s' is no address: host:port", address);
    if (len >= PB_HTTP_NAME_MAX)
        return pb_err_set(err, PB_USAGE, "'%.40s…' is no name of a host", address);
    memcpy(host, address, len);
    host[len] = '\0';
    memcpy(port, digits, n + 1);
    return 0;
}
