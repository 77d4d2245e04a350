#include "display/spark.h"

#include <math.h>
#include <stdio.h>

/* Differences below this share of the greatest are noise. */
#define NOISE 0.02

void pb_spark(struct pb_buf *out, const double *v, size_t n)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    for (size_t i = 0; i < n; i++) {
        if (isnan(v[i]))
            pb_buf_putc(out, ' ');
        else if (high - low <= fabs(high) * NOISE)
            pb_buf_puts(out, high > 0 ? bars[3] : bars[0]);
        else
            pb_buf_puts(out, bars[(size_t)((v[i] - low) / (high - low) * 7.999)]);
    }
}

void pb_megabytes(char buf[16], double mb)
{
    if (isnan(mb))
        buf[0] = '\0';
    else if (fabs(mb) >= 1e9)
        snprintf(buf, 16, "%.0e MB", mb);
    else if (fabs(mb) >= 1024 * 1024)
        snprintf(buf, 16, "%.2f TB", mb / (1024 * 1024));
    else if (fabs(mb) >= 1024)
        snprintf(buf, 16, "%.2f GB", mb / 1024);
    else
        snprintf(buf, 16, fabs(mb) >= 100 ? "%.0f MB" : "%.1f MB", mb);
}
