/*
 * imports.h - functions that all loaded libraries import, with others put in their place.
 *
 * Owns: nothing; what a struct pb_imports points to lives as long as the process.
 * Threads: one at a time. The libraries' threads may be calling the functions meanwhile.
 * Fails: never; a library whose table cannot be read or written stays as it is.
 * Not here: one function of one library (import.h).
 *
 * All functions of the list belong together, as malloc and free do. A library that calls a single
 * one of them somewhere else (it has an allocator of its own, or another tool was there before) is
 * left alone as a whole: what one of the two hands out, the other must not get back.
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_IMPORTS_H
#define PB_AGENT_COLLECTORS_NATIVE_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

struct pb_import_swap {
    const char *symbol;
    void *original; /* its address, as dlsym tells; NULL: this one is left out */
    void *target;   /* where calls lead: the same, or see pb_imports_target */
    void *ours;
};

enum { PB_IMPORTS_SPARED = 5 };

struct pb_imports {
    const struct pb_import_swap *swaps;
    size_t nswaps;
    const void *spared[PB_IMPORTS_SPARED]; /* addresses in libraries that are left alone */
    unsigned long long loaded;             /* libraries ever loaded at the last look */
};

/*
 * A program that is not position-independent may have a stub for a function, which is its address
 * for everybody, while calls lead to the function itself: what the stub leads to.
 */
void *pb_imports_target(void *address, const char *symbol);
/* Puts ours everywhere; returns how many libraries call ours now. */
size_t pb_imports_install(struct pb_imports *i);
/* Whether libraries have been loaded since. */
bool pb_imports_are_stale(const struct pb_imports *i);
/* Puts the originals back wherever ours is found. */
void pb_imports_restore(struct pb_imports *i);

#endif
