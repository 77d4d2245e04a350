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
#ifndef PB_UNWIND_PYTHON_LOCATE_H
#define PB_UNWIND_PYTHON_LOCATE_H

#include <sys/types.h>

#include "base/err.h"
#include "host/arena.h"
#include "host/elf.h"
#include "host/maps.h"
#include "host/mem.h"
#include "unwind/python/layout.h"

struct pb_py_location {
    struct pb_py_layout layout;
    char version[24];      /* "3.11.7"; "3.11" when the micro version is not known */
    uint64_t runtime;      /* address of _PyRuntime; 0 to 3.6 */
    uint64_t interp_head;  /* address of the pointer to the first interpreter */
    uint64_t finalizing;   /* address of a pointer, set while the runtime ends; 0: not known */
    uint64_t current;      /* address of _PyThreadState_Current, to 3.6; else 0 */
    const char *module;    /* file that holds the interpreter */
    const char *how;       /* which rung of the ladder answered */
};

int pb_py_locate(struct pb_py_location *ret, pid_t pid, const struct pb_maps *maps,
                 struct pb_mem *mem, struct pb_arena *a, struct pb_err *err);

/* Version numbers found in a file's read-only data or name; minor is -1 when unknown. */
struct pb_py_version {
    int major, minor, micro;
};

/*
 * Version of the interpreter in a module: by Py_Version where it is exported,
 * else by the version string in the file; want_minor (or -1) settles which
 * string counts.
 */
struct pb_py_version pb_py_version_of(const struct pb_elf *elf, const char *path);

#endif
