/*
 * script.h - what a Python command line runs.
 *
 * Owns: nothing; what is found lies in the command line.
 * Threads: any.
 * Fails: never.
 * Not here: reading command lines (host/process/proc.h).
 */
#ifndef PB_HOST_PYTHON_SCRIPT_H
#define PB_HOST_PYTHON_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* The script or module that NUL-separated argv runs; NULL for -c and an interactive one. */
const char *pb_script_of(const char *argv, size_t len);
/* Does it run this script: "train.py", "train", "dir/train.py", "pkg.train"? */
bool pb_script_runs(const char *argv, size_t len, const char *script);

#endif
