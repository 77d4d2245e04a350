/*
 * heap.h - what the two allocators of this process hold: Python's own, and the C library's.
 *
 * Owns: nothing but where to look.
 * Threads: any; a struct pb_heap is one thread's. No GIL.
 * Fails: a figure is -1 where it cannot be had: Python without pymalloc (free-threaded, or with
 * PYTHONMALLOC=malloc), another malloc than the C library's, one before glibc 2.33.
 * Not here: memory as the kernel counts it (memory.c), GPU memory (cuda.h).
 *
 * Objects of up to 512 bytes lie in arenas, which CPython lists in an array that a static variable
 * points to. Neither is exported, so the variable is found by what it points at: every pointer in
 * the interpreter's data is followed, and an array of arenas looks like nothing else. All reads
 * go through the kernel, since the array moves when it grows.
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_HEAP_H
#define PB_AGENT_COLLECTORS_NATIVE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/py/api.h"

struct pb_heap_info; /* the C library's struct mallinfo2 */
typedef struct pb_heap_info pb_heap_info_fn(void);

/*
 * The C library's count of what malloc has given out, if it counts, and quickly: it walks the lists
 * of free blocks with malloc locked. Any thread. Or NULL. ret_ns: what asking once takes.
 */
pb_heap_info_fn *pb_heap_info_find(uint64_t *ret_ns);
/* Bytes, large blocks with a mapping of their own included. */
double pb_heap_info_bytes(pb_heap_info_fn *ask);

struct pb_heap {
    int tries;        /* attempts to find the variable; the array may have been growing */
    uintptr_t arenas; /* address of the variable that points to the arenas; 0: not found */
    size_t arena_size;
    pb_heap_info_fn *info; /* NULL: not to be had */
    int slow;              /* answers that took too long, one behind the other */
    uint64_t info_due_ns;
    double given; /* figure that was given last */
};

/* Looks for Python's arenas, which takes some milliseconds, and at first for the other count. */
void pb_heap_find(struct pb_heap *h, const struct pb_py *py);
/* Bytes of Python's arenas. */
double pb_heap_python(const struct pb_heap *h);
/*
 * Bytes that malloc has given out. When asking takes long, the last answer serves for a while, and
 * when it takes too long, it is not asked any more.
 */
double pb_heap_given(struct pb_heap *h, uint64_t now_ns);

#endif
