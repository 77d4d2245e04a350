/*
 * object.h - Python objects in another process: heads, types, containers.
 *
 * Owns: nothing; types live in the reader's arena.
 * Threads: one per reader object.
 * Fails: with false or NULL. Every read is counted against a budget, every
 * pointer is checked before it is followed, every size before it is used.
 * Not here: how a value is shown (value.c).
 */
#ifndef PB_STACK_VALUES_OBJECT_H
#define PB_STACK_VALUES_OBJECT_H

#include "stack/values/value.h"

/* X(kind, tp_name of the built-in type) */
#define PB_PY_KINDS(X)                                                                             \
    X(NONE, "NoneType")                                                                            \
    X(BOOL, "bool")                                                                                \
    X(ELLIPSIS, "ellipsis")                                                                        \
    X(NOT_IMPLEMENTED, "NotImplementedType")                                                       \
    X(INT, "int")                                                                                  \
    X(FLOAT, "float")                                                                              \
    X(COMPLEX, "complex")                                                                          \
    X(STR, "str")                                                                                  \
    X(BYTES, "bytes")                                                                              \
    X(BYTEARRAY, "bytearray")                                                                      \
    X(LIST, "list")                                                                                \
    X(TUPLE, "tuple")                                                                              \
    X(DICT, "dict")                                                                                \
    X(SET, "set")                                                                                  \
    X(FROZENSET, "frozenset")                                                                      \
    X(RANGE, "range")                                                                              \
    X(SLICE, "slice")                                                                              \
    X(FUNCTION, "function")                                                                        \
    X(METHOD, "method")                                                                            \
    X(BUILTIN, "builtin_function_or_method")                                                       \
    X(TYPE, "type")                                                                                \
    X(MODULE, "module")                                                                            \
    X(GENERATOR, "generator")                                                                      \
    X(COROUTINE, "coroutine")                                                                      \
    X(ASYNC_GENERATOR, "async_generator")                                                          \
    X(EXCEPTION, "BaseException")                                                                  \
    X(CELL, "cell")                                                                                \
    X(NDARRAY, "numpy.ndarray")                                                                    \
    X(NUMPY_SCALAR, "numpy.generic")                                                               \
    X(TENSOR, "torch._C.TensorBase")                                                               \
    X(TENSOR_OLD, "torch._C._TensorBase")

/*
 * The state word of a str from its `kind` on. Without a GIL `interned` in front
 * of it is two bits or, in later builds, a byte of its own; a kind is never 0,
 * so the low byte tells which.
 */
static inline unsigned pb_py_str_state(const struct pb_py_layout *py, uint64_t word)
{
    return (unsigned)word >> (py->free_threaded && (word & 0xff) <= 3 ? 8 : 2);
}

enum pb_py_kind {
    PB_PY_OTHER,
#define X(kind, name) PB_PY_##kind,
    PB_PY_KINDS(X)
#undef X
};

/* Bits of tp_flags. */
#define PB_TP_INLINE_VALUES (1u << 2)
#define PB_TP_MANAGED_DICT (1u << 4)
#define PB_TP_HEAPTYPE (1u << 9)
#define PB_TP_READY (1u << 12)
#define PB_TP_LONG (1u << 24)
#define PB_TP_LIST (1u << 25)
#define PB_TP_TUPLE (1u << 26)
#define PB_TP_BYTES (1u << 27)
#define PB_TP_STR (1u << 28)
#define PB_TP_DICT (1u << 29)
#define PB_TP_EXCEPTION (1u << 30)
#define PB_TP_TYPE (1u << 31)

struct pb_py_type {
    uint64_t addr;
    enum pb_py_kind kind;
    bool kind_known;
    bool exact; /* the built-in itself, not a subclass */
    uint64_t flags;
    int64_t basicsize, itemsize, dictoffset;
    uint64_t meta, base, dict;
    const char *name; /* tp_name */
    const char *full; /* module.qualname, NULL until asked for */
};

/* A reader together with what it may still read for one value. */
struct pb_py_src {
    struct pb_py_reader *r;
    int reads;
};

#define PB_PY_READS_MAX 20000 /* for the calls of value.h that take no limit */

/* The first bytes of an object, and its type. */
struct pb_py_obj {
    uint64_t addr;
    const struct pb_py_type *type;
    size_t have;
    uint8_t head[96];
};

/* Could an object lie there: aligned, in the user half, not in the first page. */
static inline bool pb_py_is_ptr(uint64_t addr)
{
    return addr >= 4096 && addr < (UINT64_C(1) << 48) && (addr & 7) == 0;
}

/* A reference as kept on an interpreter's stack; untagged it is an address. */
static inline uint64_t pb_py_untag(const struct pb_py_layout *py, uint64_t ref)
{
    return py->tagged ? ref & ~UINT64_C(3) : ref;
}

bool pb_py_get(struct pb_py_src *s, uint64_t addr, void *buf, size_t len);
bool pb_py_open(struct pb_py_src *s, uint64_t addr, struct pb_py_obj *ret);
/* A word of the object, out of its head where that reaches. */
bool pb_py_word(struct pb_py_src *s, const struct pb_py_obj *o, int offset, uint64_t *ret);

const struct pb_py_type *pb_py_type_at(struct pb_py_src *s, uint64_t addr);
/* module.qualname; the bare name for built-ins. */
const char *pb_py_type_full(struct pb_py_src *s, const struct pb_py_type *t);
/* Module and qualified name of a class made by a program; they live in the reader's arena. */
void pb_py_type_names(struct pb_py_src *s, const struct pb_py_type *t, const char **ret_module,
                      const char **ret_qualname);
/* The name behind the last dot of tp_name. */
const char *pb_py_type_short(const struct pb_py_type *t);

/* Where the characters of a str are. */
struct pb_py_chars {
    uint64_t addr;   /* address of the first character */
    uint64_t length; /* in characters */
    int width;       /* bytes of a character: 1, 2 or 4 */
    bool ascii;
};

bool pb_py_str_chars(struct pb_py_src *s, const struct pb_py_obj *o, struct pb_py_chars *ret);
/* As UTF-8 in the arena; at most max bytes. NULL when not a str. */
char *pb_py_str_at(struct pb_py_src *s, uint64_t addr, size_t max);
/* As repr() writes it, at most max characters. */
void pb_py_str_repr(struct pb_py_src *s, const struct pb_py_obj *o, int max, struct pb_buf *out);
/* The contents of bytes as repr() writes them; total is their real number. */
void pb_py_bytes_repr(struct pb_py_src *s, uint64_t data, uint64_t total, int max,
                      struct pb_buf *out);

void pb_py_int_repr(struct pb_py_src *s, const struct pb_py_obj *o, struct pb_buf *out);
bool pb_py_int_of(struct pb_py_src *s, const struct pb_py_obj *o, int64_t *ret);
void pb_py_float_repr(double v, struct pb_buf *out);
void pb_py_complex_repr(double re, double im, struct pb_buf *out);

typedef bool pb_py_item_fn(uint64_t key, uint64_t value, void *arg);

bool pb_py_dict_walk(struct pb_py_src *s, uint64_t dict, pb_py_item_fn *visit, void *arg);
uint64_t pb_py_dict_find(struct pb_py_src *s, uint64_t dict, const char *key);
/* The attributes of an instance, wherever this version keeps them. False: none. */
bool pb_py_instance_walk(struct pb_py_src *s, const struct pb_py_obj *o, pb_py_item_fn *visit,
                         void *arg);
uint64_t pb_py_instance_find(struct pb_py_src *s, const struct pb_py_obj *o, const char *name);

#endif
