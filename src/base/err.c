#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int pb_err_set(struct pb_err *err, enum pb_code code, const char *fmt, ...)
{
    va_list ap;

    if (!err || err->code != PB_OK)
        return -1;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return -1;
}

int pb_err_prefix(struct pb_err *err, const char *fmt, ...)
{
    char old[sizeof err->msg];
    va_list ap;
    int n;

    if (!err || err->code == PB_OK)
        return -1;
    memcpy(old, err->msg, sizeof old);
    va_start(ap, fmt);
    n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    /* What does not fit is cut. */
    if (n >= 0 && (size_t)n < sizeof err->msg &&
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", old) < 0)
        err->msg[n] = '\0';
    return -1;
}
