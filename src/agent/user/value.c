/* From what the program gives to what a ring holds. */
#include <string.h>

#include "agent/user/internal.h"

/* Whole seconds up to the year 5138; beyond it must be nanoseconds, as time.time_ns() gives. */
#define SECONDS_MAX 100000000000ll
#define NS 1000000000ll

void pb_user_null(enum pb_type type, union pb_cell *ret)
{
    switch (type) {
    case PB_REAL:
        ret->d = pb_null_real();
        break;
    case PB_BOOL:
        ret->b = PB_NULL_BOOL;
        break;
    case PB_NAME:
        ret->name = PB_NULL_NAME;
        break;
    case PB_TEXT:
        ret->text.s = NULL;
        ret->text.len = 0;
        break;
    default:
        ret->i = PB_NULL_INT;
    }
}

/* True unless an exception was set, which is gone then. */
static bool went_well(const struct pb_py *py)
{
    if (!py->PyErr_Occurred())
        return true;
    py->PyErr_Clear();
    return false;
}

static bool to_real(struct pb_self *self, struct _object *value, double *ret)
{
    *ret = self->py.PyFloat_AsDouble(value);
    return *ret != -1.0 || went_well(&self->py);
}

/* A float that is a whole number is fine, too; asking it for an int would warn in some versions. */
static bool to_int(struct pb_self *self, struct _object *value, int64_t *ret)
{
    double d;

    if (pb_user_type_of(self, value) != self->user->float_type) {
        *ret = self->py.PyLong_AsLongLong(value);
        if (*ret != -1 || went_well(&self->py))
            return true;
    }
    if (!to_real(self, value, &d) || !(d > -9.2e18 && d < 9.2e18) || d != (double)(int64_t)d)
        return false;
    *ret = (int64_t)d;
    return true;
}

/* A datetime by its timestamp(); a number of seconds; a large whole one of nanoseconds. */
static bool to_time(struct pb_self *self, struct _object *value, int64_t *ret)
{
    const struct pb_py *py = &self->py;
    struct _object *type = pb_user_type_of(self, value), *method, *seconds;
    double d;
    bool good;

    if (type == self->user->int_type) {
        *ret = py->PyLong_AsLongLong(value);
        if (*ret > -SECONDS_MAX && *ret < SECONDS_MAX)
            *ret *= NS;
        return went_well(py);
    }
    method = type == self->user->float_type ? NULL : py->PyObject_GetAttrString(value, "timestamp");
    if (!method) {
        py->PyErr_Clear();
        good = to_real(self, value, &d);
    } else {
        seconds = py->PyObject_CallFunction(method, NULL);
        good = seconds && to_real(self, seconds, &d);
        py->PyErr_Clear();
        py->Py_DecRef(seconds);
        py->Py_DecRef(method);
    }
    good = good && d > -9.2e9 && d < 9.2e9;
    if (good)
        *ret = (int64_t)(d * 1e6) * 1000;
    return good;
}

const char *pb_user_text(struct pb_self *self, struct _object *value, ssize_t *ret_len,
                         struct _object **held)
{
    const struct pb_py *py = &self->py;
    const char *text;

    *held = NULL;
    if (pb_user_type_of(self, value) != self->user->str_type)
        value = *held = py->PyObject_Str(value);
    text = value ? py->PyUnicode_AsUTF8AndSize(value, ret_len) : NULL;
    if (!text)
        py->PyErr_Clear();
    return text;
}

static bool to_name(struct pb_self *self, struct pb_ring *ring, struct _object *value,
                    union pb_cell *ret)
{
    struct _object *held;
    ssize_t len = 0;
    const char *text = pb_user_text(self, value, &len, &held);

    if (text)
        ret->name = pb_ring_name(ring, text, (size_t)len);
    self->py.Py_DecRef(held);
    return text != NULL;
}

/* The text must outlive the call, so only a str itself will do. */
static bool to_text(struct pb_self *self, struct _object *value, union pb_cell *ret)
{
    ssize_t len = 0;

    if (!pb_user_is_str(self, value))
        return false;
    ret->text.s = self->py.PyUnicode_AsUTF8AndSize(value, &len);
    ret->text.len = (size_t)len;
    return ret->text.s || went_well(&self->py);
}

static bool to_bool(struct pb_self *self, struct _object *value, union pb_cell *ret)
{
    int truth = self->py.PyObject_IsTrue(value);

    ret->b = (uint8_t)truth;
    return truth >= 0 || went_well(&self->py);
}

bool pb_user_cell(struct pb_self *self, struct pb_ring *ring, enum pb_type type,
                  struct _object *value, union pb_cell *ret)
{
    bool good = false;

    if (value == self->py.none) {
        pb_user_null(type, ret);
        return true;
    }
    switch (type) {
    case PB_REAL:
        good = to_real(self, value, &ret->d);
        break;
    case PB_INT:
        good = to_int(self, value, &ret->i);
        break;
    case PB_TIME:
        good = to_time(self, value, &ret->i);
        break;
    case PB_BOOL:
        good = to_bool(self, value, ret);
        break;
    case PB_NAME:
        good = to_name(self, ring, value, ret);
        break;
    case PB_TEXT:
        good = to_text(self, value, ret);
        break;
    }
    if (!good)
        pb_user_null(type, ret);
    return good;
}
