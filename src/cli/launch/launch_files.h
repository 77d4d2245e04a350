/*
 * launch_files.h - the Python package that this executable carries, as a folder.
 *
 * Owns: <cache>/probing/<version>-<digest>/, with the package, the agent and a
 * sitecustomize.py in it. It stays: a job may start interpreters at any time.
 * Threads: one; several processes may unpack at once.
 * Fails: with a reason when no folder of this user will do. One that belongs
 * to somebody else or that others can write to is passed over, and so is one
 * on a file system that runs no code.
 * Not here: starting commands (launch.c).
 */
#ifndef PB_CLI_LAUNCH_LAUNCH_FILES_H
#define PB_CLI_LAUNCH_LAUNCH_FILES_H

#include "base/err.h"
#include "host/text/arena.h"

/* The folder's path, for PYTHONPATH. What is there and complete is left alone. */
int pb_launch_files_unpack(struct pb_arena *a, const char **ret, struct pb_err *err);

#endif
