/*
 * code.h - code objects: names, files, lines, names of variables.
 *
 * Owns: a cache of the code objects met in one process, in its own arena.
 * Threads: one.
 * Fails: a code object that cannot be read, or changes while it is read, gives
 * NULL.
 * Not here: frames.
 */
#ifndef PB_STACK_PYTHON_CODE_H
#define PB_STACK_PYTHON_CODE_H

#include "host/text/arena.h"
#include "host/process/mem.h"
#include "stack/python/frames.h"
#include "cpython/layout.h"
#include "cpython/lines.h"
#include "stack/values/value.h"

/* The pointers that tell one code object from another at the same address. */
struct pb_py_code_id {
    uint64_t type, name, filename, table, varnames;
    int32_t firstlineno;
};

/* The variables of a code object in the order of a frame's slots. */
struct pb_py_variables {
    const char **names; /* NULL where a name cannot be read */
    size_t n;
    const uint8_t *kinds; /* from 3.11 on, else NULL */
    size_t nkinds;
    size_t nargs; /* the first of them are arguments */
    bool known;
};

struct pb_py_code {
    uint64_t addr;
    struct pb_py_code_id id;
    const char *func; /* qualified name where the version has it */
    const char *name; /* plain name */
    const char *file;
    const uint8_t *table;
    size_t table_len;
    uint64_t tlbc; /* free-threaded: array of per-thread bytecode, 0 when there is none */
    struct pb_py_variables variables; /* read when they are first asked for */
    struct pb_py_code *next; /* next in the same bucket */
};

#define PB_PY_CODE_BUCKETS 512

struct pb_py_codes {
    struct pb_py_reader reader; /* reads into the cache's arena */
    struct pb_arena arena;
    struct pb_py_code *bucket[PB_PY_CODE_BUCKETS];
    uint64_t code_type; /* address of PyCode_Type, 0 until one was seen */
};

void pb_py_codes_init(struct pb_py_codes *c, struct pb_mem *mem, const struct pb_py_layout *py);
void pb_py_codes_finish(struct pb_py_codes *c);
/* Code objects that were not met before cannot be read any more. */
bool pb_py_codes_are_full(const struct pb_py_codes *c);

/* The code object of a frame, checked against memory again on every call. */
struct pb_py_code *pb_py_code_get(struct pb_py_codes *c, uint64_t addr);
/*
 * Many at once, by one read where all are known; an address of 0 is left out. False: one was
 * not to be had, and is NULL.
 */
bool pb_py_codes_get(struct pb_py_codes *c, const uint64_t *addrs, size_t n, struct pb_arena *a,
                     struct pb_py_code **ret);

/*
 * The executing line of a frame; 0 when the frame makes no sense. To 3.10 the end and the columns
 * are not told.
 */
struct pb_py_position pb_py_code_position(struct pb_py_codes *c, const struct pb_py_code *code,
                                          const struct pb_py_raw_frame *f);

#endif
