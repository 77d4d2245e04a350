#include "host/text/number.h"
#include "stack/values/object.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 30
#define DIGITS_MAX 1024 /* of 30 bits: what is turned into decimal at all */
#define DECIMAL_MAX 300 /* longer ones are shown by their first digits and their count */
#define DECIMAL_SHOWN 40

/* Number of 30-bit digits and the sign, from ob_size or lv_tag. */
static bool int_shape(struct pb_py_src *s, const struct pb_py_obj *o, uint64_t *ret_n,
                      bool *ret_neg)
{
    const struct pb_py_layout *py = s->r->py;
    uint64_t tag;

    if ((o->type->kind != PB_PY_INT && o->type->kind != PB_PY_BOOL) ||
        !pb_py_word(s, o, py->long_tag, &tag))
        return false;
    if (py->long_is_tagged) {
        *ret_n = tag >> 3;
        *ret_neg = (tag & 3) == 2;
        if ((tag & 3) == 1)
            *ret_n = 0;
    } else {
        *ret_neg = (int64_t)tag < 0;
        *ret_n = *ret_neg ? 0 - tag : tag;
    }
    return *ret_n < (UINT64_C(1) << 40);
}

static bool read_digits(struct pb_py_src *s, const struct pb_py_obj *o, uint32_t *digits, size_t n)
{
    size_t at = (size_t)s->r->py->long_digits, bytes = n * sizeof *digits;

    if (at + bytes <= o->have)
        memcpy(digits, o->head + at, bytes);
    else if (!pb_py_get(s, o->addr + at, digits, bytes))
        return false;
    for (size_t i = 0; i < n; i++)
        if (digits[i] >> DIGIT_BITS)
            return false;
    return true;
}

bool pb_py_int_of(struct pb_py_src *s, const struct pb_py_obj *o, int64_t *ret)
{
    uint32_t digits[3];
    uint64_t n, v = 0;
    bool neg;

    if (!int_shape(s, o, &n, &neg) || n > 3 || !read_digits(s, o, digits, (size_t)n))
        return false;
    if (n == 3 && digits[2] >> (64 - 2 * DIGIT_BITS))
        return false;
    for (size_t i = (size_t)n; i-- > 0;)
        v = v << DIGIT_BITS | digits[i];
    if (v > (uint64_t)INT64_MAX + neg)
        return false;
    *ret = (int64_t)(neg ? 0 - v : v);
    return true;
}

/* Divides in place by 10^9 and returns the remainder. */
static uint32_t divide(uint32_t *digits, size_t *n)
{
    uint64_t rest = 0;

    for (size_t i = *n; i-- > 0;) {
        rest = rest << DIGIT_BITS | digits[i];
        digits[i] = (uint32_t)(rest / 1000000000);
        rest %= 1000000000;
    }
    while (*n > 0 && digits[*n - 1] == 0)
        --*n;
    return (uint32_t)rest;
}

static void put_decimal(uint32_t *digits, size_t n, bool neg, struct pb_buf *out)
{
    uint32_t groups[DIGITS_MAX * 4 / 3 + 2];
    char text[DIGITS_MAX * 12 + 32];
    size_t count = 0, len;

    do
        groups[count++] = divide(digits, &n);
    while (n > 0);
    len = (size_t)sprintf(text, "%u", groups[--count]);
    while (count > 0)
        len += (size_t)sprintf(text + len, "%09u", groups[--count]);
    if (neg)
        pb_buf_putc(out, '-');
    if (len <= DECIMAL_MAX)
        pb_buf_add(out, text, len);
    else
        pb_buf_printf(out, "%.*s… (%zu digits)", DECIMAL_SHOWN, text, len);
}

void pb_py_int_repr(struct pb_py_src *s, const struct pb_py_obj *o, struct pb_buf *out)
{
    uint32_t digits[DIGITS_MAX];
    uint64_t n;
    bool neg;

    if (!int_shape(s, o, &n, &neg))
        pb_buf_puts(out, "<unreadable int>");
    else if (n > DIGITS_MAX)
        pb_buf_printf(out, "<int of about %llu bits>", (unsigned long long)n * DIGIT_BITS);
    else if (!read_digits(s, o, digits, (size_t)n))
        pb_buf_puts(out, "<unreadable int>");
    else
        put_decimal(digits, (size_t)n, neg, out);
}

/* As repr(), without the ".0" that only a float adds. */
static void put_double(double v, struct pb_buf *out, bool add_point)
{
    char text[PB_NUMBER_TEXT], digits[24];
    int exponent, n = 0;

    if (isnan(v) || isinf(v)) {
        pb_buf_puts(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    pb_number_shortest(v, false, 'e', text);
    exponent = atoi(strchr(text, 'e') + 1);
    for (const char *p = text; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = '\0';
    if (signbit(v))
        pb_buf_putc(out, '-');
    if (exponent < -4 || exponent >= 16) {
        pb_buf_printf(out, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                      exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        pb_buf_printf(out, "0.%.*s%s", -exponent - 1, "0000", digits);
    } else if (n <= exponent + 1) {
        pb_buf_printf(out, "%s%.*s%s", digits, exponent + 1 - n, "0000000000000000",
                      add_point ? ".0" : "");
    } else {
        pb_buf_printf(out, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
}

void pb_py_float_repr(double v, struct pb_buf *out)
{
    put_double(v, out, true);
}

void pb_py_complex_repr(double re, double im, struct pb_buf *out)
{
    if (re == 0 && !signbit(re)) {
        put_double(im, out, false);
        pb_buf_putc(out, 'j');
        return;
    }
    pb_buf_putc(out, '(');
    put_double(re, out, false);
    if (isnan(im) || !signbit(im))
        pb_buf_putc(out, '+');
    put_double(im, out, false);
    pb_buf_puts(out, "j)");
}

bool pb_py_int(struct pb_py_reader *r, uint64_t obj, int64_t *ret)
{
    struct pb_py_src s = {r, PB_PY_READS_MAX};
    struct pb_py_obj o;

    return pb_py_open(&s, pb_py_untag(r->py, obj), &o) && pb_py_int_of(&s, &o, ret);
}
