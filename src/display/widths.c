#include "display/widths.h"

static size_t capped(size_t width, size_t min, size_t cap)
{
    cap = cap > min ? cap : min;
    return width < cap ? width : cap;
}

static size_t total(const size_t *widths, const size_t *mins, size_t n, size_t gap, size_t cap)
{
    size_t sum = n ? (n - 1) * gap : 0;

    for (size_t i = 0; i < n; i++)
        sum += capped(widths[i], mins[i], cap);
    return sum;
}

size_t pb_widths_fit(size_t *widths, const size_t *mins, size_t n, size_t gap, size_t limit)
{
    size_t low = 1, high = 1;

    for (size_t i = 0; i < n; i++)
        high = widths[i] > high ? widths[i] : high;
    if (total(widths, mins, n, gap, high) <= limit)
        return limit;
    while (low < high) {
        size_t cap = (low + high + 1) / 2;

        if (total(widths, mins, n, gap, cap) <= limit)
            low = cap;
        else
            high = cap - 1;
    }
    for (size_t i = 0; i < n; i++)
        widths[i] = capped(widths[i], mins[i], low);
    return low;
}
