/*
 * show.h - one value on its way to text.
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: never; see value.h.
 * Not here: reading (object.h).
 */
#ifndef PB_STACK_VALUES_SHOW_H
#define PB_STACK_VALUES_SHOW_H

#include "stack/values/object.h"

#define PB_PY_DEPTH_MAX 16

struct pb_py_show {
    struct pb_py_src src;
    const struct pb_py_limits *lim;
    struct pb_buf *out;
    size_t start;   /* length of out before the value */
    int depth;      /* containers that are open */
    int attributes; /* instances whose attributes are being shown */
    uint64_t open[PB_PY_DEPTH_MAX];
};

/* Any object: by its kind, as a container, or as an object of some other type. */
void pb_py_show_value(struct pb_py_show *v, uint64_t addr);
/* Lists, tuples, dicts and sets; false when the kind is none of them. */
bool pb_py_show_container(struct pb_py_show *v, const struct pb_py_obj *o);
/* `<Color.RED: 1>`; false when the object is no member of an enumeration. */
bool pb_py_show_enum(struct pb_py_show *v, const struct pb_py_obj *o);
/* Whatever has no literal: functions, types, modules, instances. */
void pb_py_show_object(struct pb_py_show *v, const struct pb_py_obj *o);
/* Arrays by type, shape and address; NumPy's scalars by value. */
void pb_py_show_numpy(struct pb_py_show *v, const struct pb_py_obj *o);
/* One element, "float32" and the like, out of the low bytes of a word; false: an unknown type. */
bool pb_py_put_scalar(const char *name, uint64_t word, struct pb_buf *out);
/* A tensor of torch; false when it does not look like one. */
bool pb_py_show_tensor(struct pb_py_show *v, const struct pb_py_obj *o);
/* A DataFrame or Series of pandas; false when it does not look like one. */
bool pb_py_show_pandas(struct pb_py_show *v, const struct pb_py_obj *o);
/* `Type(` for an instance of a subclass; pb_py_show_close ends it. */
void pb_py_show_open(struct pb_py_show *v, const struct pb_py_obj *o);
void pb_py_show_close(struct pb_py_show *v, const struct pb_py_obj *o);
/* Is there no room for more text, or no read left? */
bool pb_py_show_full(const struct pb_py_show *v);
/* The items of `o` and an enclosing pair of brackets, at one level deeper. False: too deep. */
bool pb_py_show_enter(struct pb_py_show *v, uint64_t addr, const char *brackets);
void pb_py_show_leave(struct pb_py_show *v);
/* Goes in front of item number i: a comma, or the end of what is shown. */
bool pb_py_show_next(struct pb_py_show *v, uint64_t i, uint64_t total);

#endif
