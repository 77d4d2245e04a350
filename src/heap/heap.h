/*
 * heap.h - the Python objects of a process, counted from outside.
 *
 * Owns: nothing; results go into the caller's arena.
 * Threads: one user per target object.
 * Fails: with a reason (ended, memory cannot be read, a version whose allocator is not known).
 * Not here: text and tables.
 *
 * The target is not stopped, needs no GIL and no probe: its memory is copied with few large reads
 * and looked at here. What changes meanwhile can be torn; an object that makes no sense is left
 * out and counted. Where objects come from:
 *   small ones   the allocator's own tables (pymalloc's arenas, mimalloc's segments) lead to every
 *                block; one that begins with a valid head of a valid type is an object;
 *   large ones   the garbage collector's lists, and every word of the others that leads to one.
 * Objects that are part of the interpreter's program (built-in types, small ints) do not count.
 *
 * A target may have arranged its memory to keep a reader busy for ever, or to fill it: a million
 * lists with the same buffer, tables of more memory than there is. What is looked at is bounded by
 * what the target really has in memory; where that does not do, the note says so.
 */
#ifndef PB_HEAP_HEAP_H
#define PB_HEAP_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "stack/snapshot.h"

struct pb_heap_type {
    const char *type;   /* name with the classes around it: "Outer.Inner" */
    const char *module; /* "builtins" for built-in ones */
    uint64_t count, bytes;
};

/* One of the largest containers. */
struct pb_heap_container {
    uint64_t addr;
    const char *type, *module;
    uint64_t items, bytes;
    const char *holder; /* "app.CACHE", "step() at train.py:12: batch"; NULL: nobody found */
};

/* Where objects of one type are held. */
struct pb_heap_path {
    const char *path;
    uint64_t count, bytes;
};

struct pb_heap {
    struct pb_heap_type *types; /* by bytes, the largest first; then own ones */
    size_t ntypes;
    uint64_t objects, bytes;
    uint64_t skipped; /* count of objects that were torn or unreadable */
    struct pb_heap_container *containers; /* by bytes, the largest first */
    size_t ncontainers;
    struct pb_heap_path *paths; /* by count, the largest first */
    size_t npaths;
    bool type_found;          /* there are objects of the type that was asked for */
    uint64_t unreached;       /* objects of the wanted type that no module and no frame leads to */
    uint64_t allocator_bytes; /* bytes that the allocator of small objects has from the system */
    uint64_t copied_bytes;
    double seconds;
    const char *how;  /* where objects were found */
    const char *note; /* what is missing and why, or NULL */
};

struct pb_heap_opts {
    size_t containers;   /* how many of the largest are wanted */
    bool own;            /* containers of the program's own variables, too, up to 32 */
    const char *type;    /* type whose holders are wanted: "Node", "app.Node"; NULL: none */
    uint64_t memory_max; /* bytes of copies to keep; 0: what fits the target and this machine */
    uint64_t work_max;   /* bytes to look at; 0: several times what the target has in memory */
    uint64_t deadline_ns;           /* monotonic; 0: none */
    const _Atomic bool *cancelled;  /* nobody waits for it any more; or NULL */
    /* Called now and then with the share that is done; may be NULL. */
    void (*progress)(void *arg, double done);
    void *arg;
};

int pb_heap_read(struct pb_target *t, const struct pb_heap_opts *o, struct pb_arena *a,
                 struct pb_heap *ret, struct pb_err *err);
int pb_heap_read_view(const struct pb_target_view *view, const struct pb_heap_opts *o,
                      struct pb_arena *a, struct pb_heap *ret, struct pb_err *err);

#endif
