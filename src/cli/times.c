#include "cli/times.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double pb_times_length(const char *text)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1}, {"sec", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    double n;

    if (!isdigit((unsigned char)*text))
        return -1;
    n = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0)
            return n * units[i].seconds;
    return -1;
}

/* "14:05" or "14:05:30" as seconds since 1970; false: it is neither. */
static bool read_clock(const char *text, time_t *ret)
{
    int hour, minute, second = 0, used = 0;
    time_t now = time(NULL);
    struct tm tm;

    if (sscanf(text, "%2d:%2d%n:%2d%n", &hour, &minute, &used, &second, &used) < 2 ||
        text[used] || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
        second > 59)
        return false;
    localtime_r(&now, &tm);
    tm.tm_hour = hour;
    tm.tm_min = minute;
    tm.tm_sec = second;
    tm.tm_isdst = -1;
    *ret = mktime(&tm);
    if (*ret > now) {
        tm.tm_mday--;
        tm.tm_isdst = -1;
        *ret = mktime(&tm);
    }
    return true;
}

static int no_time(struct pb_ctx *ctx, const char *what, const char *text)
{
    return pb_err_set(&ctx->err, PB_USAGE,
                      "%s: '%s' is no time; write '2025-08-01 12:00', 14:05 or, for so long ago, "
                      "90s, 10min, 2h, 3d", what, text);
}

const char *pb_times_sql(struct pb_ctx *ctx, const char *what, const char *text)
{
    double seconds = pb_times_length(text);
    time_t at;

    if (seconds >= 0)
        return pb_arena_printf(&ctx->arena, "(now() - INTERVAL '%.3f seconds')", seconds);
    if (strlen(text) >= 10 && text[4] == '-' && text[7] == '-' &&
        strspn(text, "0123456789-+:. TZ") == strlen(text))
        return pb_arena_printf(&ctx->arena, "TIMESTAMPTZ '%s'", text);
    if (read_clock(text, &at))
        return pb_arena_printf(&ctx->arena, "make_timestamptz(%lld)", (long long)at * 1000000);
    no_time(ctx, what, text);
    return NULL;
}

/* A time as the hour since 1970 (UTC) that it is in, or -1 with the error set. */
static int64_t hour_of(struct pb_ctx *ctx, const char *what, const char *text)
{
    static const char *const formats[] = {"%Y-%m-%d", "%Y-%m-%d %H", "%Y-%m-%d %H:%M",
                                          "%Y-%m-%dT%H:%M"};
    double seconds = pb_times_length(text);
    time_t at;

    if (seconds >= 0)
        return ((int64_t)time(NULL) - (int64_t)seconds) / 3600;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct tm tm = {0};
        const char *end = strptime(text, formats[i], &tm);

        if (end && !*end)
            return (int64_t)timegm(&tm) / 3600;
    }
    if (read_clock(text, &at))
        return (int64_t)at / 3600;
    return no_time(ctx, what, text);
}

int pb_times_hours(struct pb_ctx *ctx)
{
    const char *since = pb_opt_str(ctx, "since", NULL), *until = pb_opt_str(ctx, "until", NULL);

    if (!since && !until)
        return 0;
    if (!ctx->store)
        return pb_err_set(&ctx->err, PB_USAGE,
                          "--since and --until are for --store on a lake; elsewhere SQL says it: "
                          "WHERE timestamp > now() - INTERVAL 2 HOUR");
    ctx->hours[0] = since ? hour_of(ctx, "--since", since) : 0;
    ctx->hours[1] = until ? hour_of(ctx, "--until", until) : INT64_MAX;
    return ctx->hours[0] < 0 || ctx->hours[1] < 0 ? -1 : 0;
}
