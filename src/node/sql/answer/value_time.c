#include "node/sql/answer/value_time.h"

#include <inttypes.h>

void pb_value_date(struct pb_buf *b, int64_t days)
{
    int64_t era, day, year;
    unsigned doe, yoe, doy, mp;

    if (days == INT32_MAX || days == -INT32_MAX) {
        pb_buf_puts(b, days > 0 ? "infinity" : "-infinity");
        return;
    }
    day = days + 719468;
    era = (day >= 0 ? day : day - 146096) / 146097;
    doe = (unsigned)(day - era * 146097);
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    year = (int64_t)yoe + era * 400;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    pb_buf_printf(b, "%04" PRId64 "-%02u-%02u", year + (mp >= 10), mp < 10 ? mp + 3 : mp - 9,
                  doy - (153 * mp + 2) / 5 + 1);
}

void pb_value_clock(struct pb_buf *b, int64_t units, int64_t per_second, int digits)
{
    int64_t s = units / per_second, rest = units % per_second;

    pb_buf_printf(b, "%02d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    if (rest)
        pb_buf_printf(b, ".%0*" PRId64, digits, rest);
}

void pb_value_timestamp(struct pb_buf *b, int64_t v, int64_t per_second, int digits, bool zone)
{
    int64_t per_day = per_second * 86400, days = v / per_day;

    if (v == INT64_MAX || v == -INT64_MAX) {
        pb_buf_puts(b, v > 0 ? "infinity" : "-infinity");
        return;
    }
    if (v % per_day < 0)
        days--;
    pb_value_date(b, days);
    pb_buf_putc(b, 'T');
    pb_value_clock(b, v - days * per_day, per_second, digits);
    if (zone)
        pb_buf_putc(b, 'Z');
}
