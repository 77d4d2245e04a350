/*
 * duck.h - DuckDB's C API, loaded at run time.
 *
 * Owns: the loaded library, which stays until the process ends.
 * Threads: any, once loaded; the functions as DuckDB says (a connection has one user at a time).
 * Fails: loading says what was looked for, where, and what to do.
 * Not here: what is done with it (engine.c, scan_*.c).
 *
 * Types and functions are declared by DuckDB's own header of the very version that is loaded
 * (tools/setup gets both); the executable is not linked to it.
 */
#ifndef PB_NODE_SQL_DUCK_H
#define PB_NODE_SQL_DUCK_H

#include <duckdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PB_DUCK_VERSION "1.5.5"
#define PB_DUCK_FILE "libduckdb.so"

enum { PB_DUCK_VECTOR = 2048 }; /* rows of a chunk at most */

struct pb_duck {
#define DUCK(name) __typeof__(duckdb_##name) *name;
#include "node/sql/duck.def"
#undef DUCK
};

/* Bytes of a text in a vector, not ended by a zero. */
static inline const char *pb_duck_text(const duckdb_string_t *s, size_t *ret_len)
{
    *ret_len = s->value.inlined.length;
    return *ret_len <= sizeof s->value.inlined.inlined ? s->value.inlined.inlined
                                                       : s->value.pointer.ptr;
}

/*
 * Where the library is that would be loaded; false: nowhere known. Looked at: $PROBING_ENGINE, the
 * executable's folder, from there ../lib/probing, the loader's own folders.
 */
bool pb_duck_find(char *buf, size_t cap);
/* Loads it unless that was done. One call at a time. */
int pb_duck_load(struct pb_err *err);
/*
 * The functions, once loaded. A callback of the engine gets no pointer of ours before it has asked
 * one of them for it: so they stand where a linker would have put them.
 */
const struct pb_duck *pb_duck(void);
/*
 * Turns a vector of `size` values into one of n: value i is the one that the selection names. As
 * slice_vector, but the engine may take the values for few and many times used.
 */
void pb_duck_dictionary(duckdb_vector v, uint64_t size, duckdb_selection_vector selection,
                        uint64_t n);

#endif
