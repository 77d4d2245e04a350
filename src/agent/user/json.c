/* Attributes of spans and events as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/user/internal.h"

enum { VALUE_MAX = 512 }; /* bytes of one text */

struct out {
    char *buf;
    size_t len, cap;
    bool full;
};

static void put(struct out *o, const char *s, size_t len)
{
    if (o->full || o->len + len > o->cap) {
        o->full = true;
        return;
    }
    memcpy(o->buf + o->len, s, len);
    o->len += len;
}

static void put_string(struct out *o, const char *s, size_t len)
{
    char code[8];

    put(o, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '"' || c == '\\') {
            code[0] = '\\';
            code[1] = (char)c;
            put(o, code, 2);
        } else if (c < ' ') {
            snprintf(code, sizeof code, "\\u%04x", c);
            put(o, code, 6);
        } else {
            put(o, s + i, 1);
        }
    }
    put(o, "\"", 1);
}

/* Cuts behind a whole character. */
static size_t shorten(const char *s, size_t len)
{
    if (len <= VALUE_MAX)
        return len;
    len = VALUE_MAX;
    while (len && ((unsigned char)s[len] & 0xc0) == 0x80)
        len--;
    return len;
}

static bool is_kind(struct pb_self *self, struct _object *value, struct _object *type)
{
    return self->py.PyType_IsSubtype(pb_user_type_of(self, value), type);
}

/* A number as Python writes it, if JSON can. An enum and the like has a text of its own. */
static bool put_number(struct pb_self *self, struct out *o, struct _object *value)
{
    struct _object *text;
    ssize_t len = 0;
    const char *s;
    double d;

    if (is_kind(self, value, self->user->float_type)) {
        d = self->py.PyFloat_AsDouble(value);
        if (!isfinite(d)) {
            put(o, "null", 4);
            return true;
        }
    } else if (pb_user_type_of(self, value) != self->user->int_type) {
        return false;
    }
    s = pb_user_text(self, value, &len, &text);
    if (s)
        put(o, s, (size_t)len);
    self->py.Py_DecRef(text);
    return s != NULL;
}

static void put_value(struct pb_self *self, struct out *o, struct _object *value)
{
    struct _object *held;
    ssize_t len = 0;
    const char *s;

    if (value == self->py.none) {
        put(o, "null", 4);
    } else if (value == self->user->yes || value == self->user->no) {
        put(o, value == self->user->yes ? "true" : "false", value == self->user->yes ? 4 : 5);
    } else if (!put_number(self, o, value)) {
        s = pb_user_text(self, value, &len, &held);
        if (s)
            put_string(o, s, shorten(s, (size_t)len));
        else
            put(o, "null", 4);
        self->py.Py_DecRef(held);
    }
}

size_t pb_user_json(struct pb_self *self, const struct pb_user_args *args, char *buf, size_t cap)
{
    struct out o = {buf, 0, cap - 1, false}; /* one byte for the last brace */
    struct _object *name, *value, *held;
    ssize_t at = 0, len;

    while (pb_user_next(&self->py, args, &at, &name, &value)) {
        size_t before = o.len;
        const char *s = pb_user_text(self, name, &len, &held);

        put(&o, o.len ? ", " : "{", o.len ? 2 : 1);
        put_string(&o, s ? s : "", s ? (size_t)len : 0);
        put(&o, ": ", 2);
        put_value(self, &o, value);
        self->py.Py_DecRef(held);
        if (o.full) {
            o.len = before;
            break;
        }
    }
    if (o.len)
        buf[o.len++] = '}';
    return o.len;
}
