#include "display/value_text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/json_write.h"
#include "display/print.h"

#define DIGITS_MAX 15
#define DIGITS_SHOWN 4

const char *pb_show_real(struct pb_arena *a, double d)
{
    char text[40];
    const char *e;
    int power, behind;

    snprintf(text, sizeof text, "%.*e", DIGITS_SHOWN - 1, d);
    e = strchr(text, 'e');
    power = e ? (int)strtol(e + 1, NULL, 10) : 0;
    if (!e || power < -5 || power >= DIGITS_MAX) {
        snprintf(text, sizeof text, "%.*g", DIGITS_SHOWN, d);
        return pb_arena_strdup(a, text);
    }
    /* One digit behind the point tells it from a whole number. */
    behind = DIGITS_SHOWN - 1 - power;
    if (behind < 1)
        behind = d == (double)(int64_t)d;
    snprintf(text, sizeof text, "%.*f", behind, d);
    for (size_t len = strlen(text); behind > 0 && text[len - 1] == '0' && text[len - 2] != '.';
         len--)
        text[len - 1] = '\0';
    return pb_arena_strdup(a, text);
}

static void write_value(struct pb_buf *b, struct pb_arena *a, const struct pb_json *v)
{
    switch (v->type) {
    case PB_J_REAL:
        pb_buf_puts(b, pb_show_real(a, v->v.d));
        break;
    case PB_J_NULL:
        pb_buf_puts(b, "null");
        break;
    case PB_J_BOOL:
        pb_json_bool(b, v->v.b);
        break;
    case PB_J_STRING:
        pb_json_string(b, v->s);
        break;
    case PB_J_ARRAY:
    case PB_J_OBJECT:
        pb_buf_putc(b, v->type == PB_J_ARRAY ? '[' : '{');
        for (size_t i = 0; i < v->n; i++) {
            pb_buf_puts(b, i ? ", " : "");
            if (v->type == PB_J_OBJECT) {
                pb_json_string(b, v->items[i].key);
                pb_buf_puts(b, ": ");
            }
            write_value(b, a, &v->items[i]);
        }
        pb_buf_putc(b, v->type == PB_J_ARRAY ? ']' : '}');
        break;
    default:
        pb_buf_add(b, v->s, v->len);
    }
}

const char *pb_show_nested(struct pb_arena *a, const struct pb_json *v)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *text;

    write_value(&b, a, v);
    text = pb_text_clean(a, b.data);
    pb_buf_finish(&b);
    return text;
}

const char *pb_show_time(struct pb_arena *a, const char *iso)
{
    char *text = pb_arena_strdup(a, iso);
    char *t = strchr(text, 'T'), *dot = strchr(text, '.'), *last;
    size_t digits;

    if (t)
        *t = ' ';
    if (!dot)
        return text;
    digits = strspn(dot + 1, "0123456789");
    last = dot + digits;
    while (last > dot && *last == '0')
        last--;
    last += last > dot;
    memmove(last, dot + 1 + digits, strlen(dot + 1 + digits) + 1);
    return text;
}
