/*
 * crash_files.h - reports of crashes, a file each, in <data>/crashes.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: any; a file appears whole under its name.
 * Fails: with a reason. What cannot be read or is no report is left out of a list.
 * Not here: what is in a report (crash_take.c writes them, docs/crashes.md describes them).
 *
 *     <data>/crashes/20261118-041655-4242.json    UTC time and process
 *
 * The first line is an object with everything but the stacks, so that a list need not read those;
 * the second line is the process with its threads, as `backtrace -f json` has it.
 */
#ifndef PB_HOST_OS_CRASH_FILES_H
#define PB_HOST_OS_CRASH_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/text/json.h"

enum { PB_CRASH_ID_MAX = 48, PB_CRASH_FILES_MAX = 1000 };

struct pb_crash_file {
    const char *id;
    const char *text;           /* first line: an object */
    const struct pb_json *head; /* first line, parsed */
};

/* "20261118-041655-4242". */
void pb_crash_id(char buf[PB_CRASH_ID_MAX], int64_t wall_ns, pid_t pid);
/* Writes one. An id that is taken gets "-2" and so on: id is changed. */
int pb_crash_files_write(const char *data_dir, char id[PB_CRASH_ID_MAX], const char *text,
                         size_t len, struct pb_err *err);
/* Writes one that is there already anew. */
int pb_crash_files_replace(const char *data_dir, const char *id, const char *text, size_t len,
                           struct pb_err *err);
/* Removes those that are older than days, and the oldest beyond PB_CRASH_FILES_MAX. */
void pb_crash_files_tidy(const char *data_dir, int64_t days);
/* The newest first; none at all is no error. */
int pb_crash_files_list(const char *data_dir, struct pb_arena *a, struct pb_crash_file **ret,
                        size_t *ret_n, struct pb_err *err);
/* The second line of one, or NULL: the report has no stacks, or is gone. */
const char *pb_crash_files_stacks(const char *data_dir, const char *id, struct pb_arena *a,
                                  size_t *ret_len);

#endif
