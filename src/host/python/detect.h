/*
 * detect.h - is a process Python, and which?
 *
 * Owns: what it learned about files, so that a hundred processes of one
 * interpreter cost one look.
 * Threads: one per detector.
 * Fails: never; a process that may not be read is judged by its name.
 * Not here: finding the interpreter's data (stack/python/locate.h). Reads files and /proc
 * only, never the memory of the process.
 */
#ifndef PB_HOST_PYTHON_DETECT_H
#define PB_HOST_PYTHON_DETECT_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/text/arena.h"
#include "host/python/version.h"

struct pb_py_detector {
    struct pb_arena *arena;
    struct pb_py_known_file *files;
};

struct pb_py_found {
    char version[24];   /* "3.11.7", "3.11", or "" when unknown */
    struct pb_py_version number; /* version as numbers; all 0 when unknown */
    const char *module; /* file that holds the interpreter, or NULL */
    const char *how;    /* what gave it away, for people */
};

/* Everything found lives in the arena. */
void pb_py_detector_init(struct pb_py_detector *d, struct pb_arena *a);

/* False: not Python, or gone. */
bool pb_py_detect(struct pb_py_detector *d, pid_t pid, struct pb_py_found *ret);

/* Is this what a CPython program is called: python, python3.11, python3.13t, python3-dbg? */
bool pb_py_is_program_name(const char *path);

#endif
