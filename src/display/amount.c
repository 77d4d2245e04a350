#include "display/amount.h"

#include <math.h>
#include <stdio.h>

static const char *sign_of(int64_t n, bool sign)
{
    return n < 0 ? "-" : sign && n > 0 ? "+" : "";
}

const char *pb_amount_count(struct pb_arena *a, int64_t n, bool sign)
{
    char digits[32], text[48];
    uint64_t v = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)v), k = 0;

    for (int i = 0; i < len; i++) {
        text[k++] = digits[i];
        if ((len - i - 1) % 3 == 0 && i + 1 < len)
            text[k++] = ',';
    }
    text[k] = '\0';
    return pb_arena_printf(a, "%s%s", sign_of(n, sign), text);
}

const char *pb_amount_bytes(struct pb_arena *a, int64_t n, bool sign)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double v = fabs((double)n);
    size_t unit = 0;
    int digits;

    while (v >= 1023.5 && unit < 5) {
        v /= 1024;
        unit++;
    }
    digits = unit == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
    return pb_arena_printf(a, "%s%.*f %s", sign_of(n, sign), digits, v, units[unit]);
}
