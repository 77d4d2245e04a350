/*
 * import.h - a function that a loaded library imports, with another one put in its place.
 *
 * Owns: nothing; a struct pb_import is its caller's and lives as long as the process.
 * Threads: one at a time. The library's own threads may be calling the function meanwhile.
 * Fails: false, and nothing was changed.
 * Not here: what the function does, and all libraries at once (imports.h).
 *
 * A library calls what it imports through a table of pointers that the loader fills. One pointer is
 * replaced: no code is written, no object of the library ever holds an address of ours, and a call
 * that is under way goes on undisturbed.
 */
#ifndef PB_AGENT_COLLECTORS_NATIVE_IMPORT_H
#define PB_AGENT_COLLECTORS_NATIVE_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

struct pb_import {
    void *_Atomic *slot; /* in the library; NULL: not found */
    void *original;      /* function of the other library */
    void *ours;          /* function in its place */
    bool sealed;         /* the loader has made the table read-only */
    bool installed;
};

/* Whether a loaded library ("libc10.so") imports such a symbol. */
bool pb_import_exists(const char *library, const char *symbol);
/* Finds where it does; exported_by: the library that has the function. */
bool pb_import_find(struct pb_import *i, const char *library, const char *symbol,
                    const char *exported_by);
bool pb_import_install(struct pb_import *i, void *ours);
/* Whether ours is still there: the loader writes there at a function's first call. */
bool pb_import_is_installed(const struct pb_import *i);
void pb_import_restore(struct pb_import *i);

#endif
