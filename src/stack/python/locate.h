/*
 * locate.h - finding the interpreter inside a process.
 *
 * Owns: nothing; strings go into the caller's arena.
 * Threads: any.
 * Fails: with the reason (not Python, unknown version, debug build, still
 * starting); never with a guess that was not validated against live memory.
 * Not here: what the interpreter is doing.
 *
 * A ladder from the surest to the weakest way: exported symbol, local symbol,
 * the .PyRuntime section, the cookie of _Py_DebugOffsets, a scan of the data
 * segment. Each rung's result must lead to an interpreter whose first thread
 * points back at it.
 */
#ifndef PB_STACK_PYTHON_LOCATE_H
#define PB_STACK_PYTHON_LOCATE_H

#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/elf/elf.h"
#include "host/process/maps.h"
#include "host/process/mem.h"
#include "host/python/version.h"
#include "cpython/layout.h"

struct pb_py_location {
    struct pb_py_layout layout;
    char version[24];      /* "3.11.7"; "3.11" when the micro version is not known */
    uint64_t runtime;      /* address of _PyRuntime; 0 to 3.6 */
    uint64_t interp_head;  /* address of the pointer to the first interpreter */
    uint64_t finalizing;   /* address of a pointer, set while the runtime ends; 0: not known */
    uint64_t current;      /* address of _PyThreadState_Current, to 3.6; else 0 */
    uint64_t gil;          /* begin of the data that the GIL lies in, to 3.6; 0: not known */
    uint64_t gil_size;     /* bytes of that data */
    const char *module;    /* file that holds the interpreter */
    uint64_t base;         /* where that file's first mapping begins */
    uint64_t bias;         /* address in memory minus address in the file */
    const char *how;       /* which rung of the ladder answered */
};

int pb_py_locate(struct pb_py_location *ret, pid_t pid, const struct pb_maps *maps,
                 struct pb_mem *mem, struct pb_arena *a, struct pb_err *err);

/* Opens the file that holds the interpreter, or what is mapped of it; pb_elf_close ends it. */
int pb_py_location_open(const struct pb_py_location *loc, const struct pb_maps *maps,
                        struct pb_mem *mem, struct pb_elf *ret);

#endif
