#include "host/text/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "1.2500e+01" becomes "1.25e+01". */
static void strip_zeros(char *text)
{
    char *exponent = strchr(text, 'e'), *end = exponent;

    while (end > text && end[-1] == '0' && memchr(text, '.', (size_t)(end - text)))
        end--;
    if (end > text && end[-1] == '.')
        end--;
    memmove(end, exponent, strlen(exponent) + 1);
}

void pb_number_shortest(double v, bool is_single, char format, char buf[PB_NUMBER_TEXT])
{
    /*
     * A text of six digits survives a float, one of fifteen a double, so shorter ones need not be
     * tried; but for the smallest, which have fewer bits.
     */
    bool is_small = v != 0 && fabs(v) < (is_single ? (double)FLT_MIN : DBL_MIN);
    int digits = is_small ? 1 : is_single ? 6 : 15, max = is_single ? 9 : 17;

    for (;; digits++) {
        if (format == 'e')
            snprintf(buf, PB_NUMBER_TEXT, "%.*e", digits - 1, v);
        else
            snprintf(buf, PB_NUMBER_TEXT, "%.*g", digits, v);
        if (digits == max || (is_single ? strtof(buf, NULL) == (float)v : strtod(buf, NULL) == v))
            break;
    }
    if (format == 'e')
        strip_zeros(buf);
}
