/*
 * version.h - which Python a file holds, from the file alone.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: never; minor is -1 when the file does not tell.
 * Not here: the version of a running interpreter (stack/python/locate.h).
 */
#ifndef PB_HOST_PYTHON_VERSION_H
#define PB_HOST_PYTHON_VERSION_H

#include "host/elf/elf.h"

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
