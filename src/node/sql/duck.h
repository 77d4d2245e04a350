/*
 * duck.h - DuckDB's C API, loaded at run time.
 *
 * Owns: the loaded library, which stays until the process ends.
 * Threads: any, once loaded; the functions as DuckDB says (a connection has one user at a time).
 * Fails: loading says what was looked for, where, and what to do.
 * Not here: what is done with it (engine.c, scan_*.c).
 *
 * Declared here and not by DuckDB's header, so that building needs neither library nor header
 * and the executable needs nothing but the C library.
 */
#ifndef PB_NODE_SQL_DUCK_H
#define PB_NODE_SQL_DUCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PB_DUCK_VERSION "1.5.5"
#define PB_DUCK_FILE "libduckdb.so"

/* Each is a pointer to something that DuckDB owns. */
struct duck_database;
struct duck_connection;
struct duck_context;
struct duck_config;
struct duck_extracted;
struct duck_prepared;
struct duck_pending;
struct duck_chunk;
struct duck_vector;
struct duck_selection;
struct duck_type;
struct duck_value;
struct duck_table_function;
struct duck_scalar_function;
struct duck_replacement;
struct duck_bind;
struct duck_init;
struct duck_call;

/* Filled by DuckDB; only the functions look inside. */
struct duck_result {
    uint64_t counts[3];
    void *pointers[3];
};

struct duck_string {
    uint32_t len;
    char prefix[4]; /* up to 12 bytes lie here and over p */
    const char *p;
};

struct duck_list {
    uint64_t offset, length;
};

struct duck_interval {
    int32_t months, days;
    int64_t micros;
};

struct duck_huge {
    uint64_t lower;
    int64_t upper;
};

enum { DUCK_VECTOR_SIZE = 2048 };

enum { DUCK_PENDING_NOT_READY = 1, DUCK_PENDING_NO_TASKS = 3 }; /* of pending_execute_task */

/* X(name, number, bytes of a cell or 0 where it is not that simple) */
#define DUCK_TYPES(X)                                                                             \
    X(BOOLEAN, 1, "BOOLEAN")                                                                      \
    X(TINYINT, 2, "TINYINT")                                                                      \
    X(SMALLINT, 3, "SMALLINT")                                                                    \
    X(INTEGER, 4, "INTEGER")                                                                      \
    X(BIGINT, 5, "BIGINT")                                                                        \
    X(UTINYINT, 6, "UTINYINT")                                                                    \
    X(USMALLINT, 7, "USMALLINT")                                                                  \
    X(UINTEGER, 8, "UINTEGER")                                                                    \
    X(UBIGINT, 9, "UBIGINT")                                                                      \
    X(FLOAT, 10, "FLOAT")                                                                         \
    X(DOUBLE, 11, "DOUBLE")                                                                       \
    X(TIMESTAMP, 12, "TIMESTAMP")                                                                 \
    X(DATE, 13, "DATE")                                                                           \
    X(TIME, 14, "TIME")                                                                           \
    X(INTERVAL, 15, "INTERVAL")                                                                   \
    X(HUGEINT, 16, "HUGEINT")                                                                     \
    X(VARCHAR, 17, "VARCHAR")                                                                     \
    X(BLOB, 18, "BLOB")                                                                           \
    X(DECIMAL, 19, "DECIMAL")                                                                     \
    X(TIMESTAMP_S, 20, "TIMESTAMP_S")                                                             \
    X(TIMESTAMP_MS, 21, "TIMESTAMP_MS")                                                           \
    X(TIMESTAMP_NS, 22, "TIMESTAMP_NS")                                                           \
    X(ENUM, 23, "ENUM")                                                                           \
    X(LIST, 24, "LIST")                                                                           \
    X(STRUCT, 25, "STRUCT")                                                                       \
    X(MAP, 26, "MAP")                                                                             \
    X(UUID, 27, "UUID")                                                                           \
    X(UNION, 28, "UNION")                                                                         \
    X(BIT, 29, "BIT")                                                                             \
    X(TIME_TZ, 30, "TIMETZ")                                                                      \
    X(TIMESTAMP_TZ, 31, "TIMESTAMPTZ")                                                            \
    X(UHUGEINT, 32, "UHUGEINT")                                                                   \
    X(ARRAY, 33, "ARRAY")                                                                         \
    X(SQLNULL, 36, "NULL")

enum duck_type_id {
#define X(name, number, text) DUCK_##name = number,
    DUCK_TYPES(X)
#undef X
};

enum duck_statement {
    DUCK_SELECT = 1,
    DUCK_EXPLAIN = 4,
};

/* Kinds of errors that are told apart. */
enum duck_error {
    DUCK_ERROR_INTERRUPT = 29,
    DUCK_ERROR_OUT_OF_MEMORY = 33,
};

typedef void duck_delete(void *data);
typedef void duck_bind_fn(struct duck_bind *info);
typedef void duck_init_fn(struct duck_init *info);
typedef void duck_table_fn(struct duck_call *info, struct duck_chunk *output);
typedef void duck_scalar_fn(struct duck_call *info, struct duck_chunk *input,
                            struct duck_vector *output);
typedef void duck_replace_fn(struct duck_replacement *info, const char *table, void *data);

struct pb_duck {
#define DUCK(result, name, arguments) result(*name) arguments;
#include "node/sql/duck.def"
#undef DUCK
};

/*
 * Loads it unless that was done. Looked at: $PROBING_ENGINE, the executable's folder, from there
 * ../lib/probing, the loader's places. One call at a time.
 */
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
void pb_duck_dictionary(struct duck_vector *v, uint64_t size, struct duck_selection *selection,
                        uint64_t n);

#endif
