/*
 * builtins.h - C functions of torch that tell what nothing else does, with ours in front.
 *
 * Owns: which pointers were replaced; the originals are kept for ever.
 * Threads: GIL held.
 * Fails: a function that is not laid out as known is left alone, and what it tells is missing.
 * Not here: what is done with what they tell (optimizers.h, norm.h).
 *
 * What Python sees of them stays as it is, so that torch.compile finds what it knows: the same
 * objects in the same places, with the same hash. Replaced is the pointer that Python calls such
 * an object through (vectorcall), by a function that does what would have been done. Before Python
 * 3.9 not every call goes that way; there the table behind the object (PyMethodDef) is changed, for
 * functions that nobody has in a dictionary: it is what their hash is made of.
 */
#ifndef PB_AGENT_TORCH_BUILTINS_H
#define PB_AGENT_TORCH_BUILTINS_H

#include <stdbool.h>
#include <stddef.h>

struct pb_torch;
struct _object;

/* X(id); which function each is stands in builtins.c. */
#define PB_TORCH_BUILTINS(X)                                                                      \
    X(ENTER) X(EXIT) X(ENTER_OLD) X(EXIT_OLD) X(GRAD_MODE) X(STACK) X(NORM) X(NORM_OLD)           \
    X(MAX_OLD) X(UNSCALE) X(CLAMP)

enum pb_torch_builtin_id {
#define X(id) PB_TORCH_BUILTIN_##id,
    PB_TORCH_BUILTINS(X)
#undef X
        PB_TORCH_BUILTIN_COUNT
};

typedef struct _object *pb_torch_vectorcall(struct _object *, struct _object *const *, size_t,
                                            struct _object *);

struct pb_torch_builtin {
    struct _object *object; /* NULL: not searched for yet */
    void **pointer;         /* what is replaced; NULL: cannot be */
    void *original, *ours;
};

struct pb_torch_builtins {
    struct pb_torch_builtin list[PB_TORCH_BUILTIN_COUNT];
};

/* False: this torch has no such function, or it is not laid out as known. */
bool pb_torch_builtin_install(struct pb_torch *t, enum pb_torch_builtin_id id);
void pb_torch_builtins_restore(struct pb_torch *t);

#endif
