/*
 * internal.h - what the files about tables of the program share.
 *
 * Owns: nothing.
 * Threads: GIL held, unless said otherwise.
 * Fails: as user.h says.
 * Not here: what the rest of the agent uses (user.h).
 */
#ifndef PB_AGENT_USER_INTERNAL_H
#define PB_AGENT_USER_INTERNAL_H

#include "agent/collectors/state.h"
#include "agent/core/self.h"
#include "agent/user/state.h"

/* The arguments of a call: positions, and names in one of two shapes. */
struct pb_user_args {
    struct _object *const *v;
    ssize_t n;
    struct _object *names;    /* a tuple, their values behind the positions; or NULL */
    struct _object *mapping;  /* a dictionary, before 3.7; or NULL */
};

/* Calls through pb_user_args on every version. */
typedef struct _object *pb_user_call(struct _object *self, const struct pb_user_args *args);
struct _object *pb_user_unpack(struct _object *self, struct _object *tuple,
                               struct _object *mapping, pb_user_call *call);
/* The next name and value; at starts with 0. */
bool pb_user_next(const struct pb_py *py, const struct pb_user_args *args, ssize_t *at,
                  struct _object **ret_name, struct _object **ret_value);

/* A static entry for a function of three shapes; flags and pointer go by the version. */
#define PB_USER_SHAPES(name)                                                                     \
    static struct _object *name##_fast(struct _object *self, struct _object *const *v, ssize_t n, \
                                       struct _object *names)                                    \
    {                                                                                            \
        struct pb_user_args args = {v, n, names, NULL};                                          \
        return name(self, &args);                                                                \
    }                                                                                            \
    static struct _object *name##_slow(struct _object *self, struct _object *tuple,              \
                                       struct _object *mapping)                                  \
    {                                                                                            \
        return pb_user_unpack(self, tuple, mapping, name);                                       \
    }
#define PB_USER_METHOD(py, text, name, doc)                                                      \
    ((py)->api.fastcall ? (struct pb_py_method){text, (pb_user_two *)(void *)name##_fast,        \
                                                PB_PY_FASTCALL | PB_PY_KEYWORDS, doc}            \
                        : (struct pb_py_method){text, (pb_user_two *)(void *)name##_slow,        \
                                                PB_PY_VARARGS | PB_PY_KEYWORDS, doc})
typedef struct _object *pb_user_two(struct _object *self, struct _object *args);

/* What we keep in an object of ours. */
static inline void *pb_user_inside(const struct pb_self *self, struct _object *object)
{
    return (char *)object + self->user->head;
}

static inline struct _object *pb_user_type_of(const struct pb_self *self, struct _object *object)
{
    return *(struct _object **)((char *)object + self->user->head - sizeof(void *));
}

static inline bool pb_user_is_str(const struct pb_self *self, struct _object *object)
{
    struct _object *type = pb_user_type_of(self, object);

    return type == self->user->str_type || self->py.PyType_IsSubtype(type, self->user->str_type);
}

static inline struct _object *pb_user_none(const struct pb_self *self)
{
    self->py.Py_IncRef(self->py.none);
    return self->py.none;
}

/* Raises TypeError; NULL. */
struct _object *pb_user_wrong(const struct pb_self *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* table.c. The ring to write to now, or NULL. Any thread, no GIL needed. */
struct pb_ring *pb_user_find_ring(struct pb_self *self, struct pb_user_table *t);

static inline struct pb_ring *pb_user_ring(struct pb_self *self, struct pb_user_table *t)
{
    struct pb_ring *ring = atomic_load_explicit(&t->ring, memory_order_acquire);

    return ring || !self->collect->on ? ring : pb_user_find_ring(self, t);
}

struct _object *pb_user_make_table_type(struct pb_self *self);
struct _object *pb_user_call_table(struct _object *module, struct _object *args);

/* span.c */
struct _object *pb_user_make_span_type(struct pb_self *self);
struct _object *pb_user_span(struct _object *module, const struct pb_user_args *args);
struct _object *pb_user_event(struct _object *module, const struct pb_user_args *args);
void pb_user_init_spans(struct pb_self *self);

/* value.c: false when the value does not fit; the cell is NULL then. */
bool pb_user_cell(struct pb_self *self, struct pb_ring *ring, enum pb_type type,
                  struct _object *value, union pb_cell *ret);
void pb_user_null(enum pb_type type, union pb_cell *ret);
/* Objects whose text a row needs until it is written: `held` keeps one, or NULL. */
const char *pb_user_text(struct pb_self *self, struct _object *value, ssize_t *ret_len,
                         struct _object **held);

/* json.c: an object of the names and values; "" when there are none. Cut at whole pairs. */
size_t pb_user_json(struct pb_self *self, const struct pb_user_args *args, char *buf, size_t cap);

/* thread.c: what this thread is in the midst of; NULL without memory. */
struct pb_user_thread *pb_user_thread(struct pb_self *self);
int64_t pb_user_tid(struct pb_user_thread *thread);
bool pb_user_make_key(struct pb_self *self);

#endif
