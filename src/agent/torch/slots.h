/*
 * slots.h - functions of ours in slots of Python types: tp_call of modules, tp_iternext of loaders.
 *
 * Owns: which slots were changed. What stood there is kept for ever, since a call may be under way.
 * Threads: GIL held.
 * Fails: where a slot is not found exactly once in a type, nothing is changed and err says so.
 * Not here: what the functions do (calls.h, loaders.h).
 */
#ifndef PB_AGENT_TORCH_SLOTS_H
#define PB_AGENT_TORCH_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct pb_torch;
struct _object;

typedef struct _object *pb_torch_ternary(struct _object *, struct _object *, struct _object *);
typedef struct _object *pb_torch_unary(struct _object *);

struct pb_torch_slots {
    ssize_t call_at, next_at; /* offsets in a type object */
    pb_torch_unary *next_original;
    struct _object *module_type, *iterator_type; /* nn.Module, _BaseDataLoaderIter */
    bool installed;
    uint64_t not_before_ns; /* earliest next walk over all classes when a new module is met */
    uint64_t check_ns;      /* next walk in any case */
    uint64_t interval_ns;   /* time between walks; doubles while nothing changes */
};

int pb_torch_slots_find(struct pb_torch *t, struct pb_err *err);
/* Puts our functions into every class that has the original ones; again for new classes. */
void pb_torch_slots_install(struct pb_torch *t);
/* About once a second: installs again when that may be needed. */
void pb_torch_slots_poll(struct pb_torch *t, uint64_t now);
void pb_torch_slots_restore(struct pb_torch *t);

#endif
