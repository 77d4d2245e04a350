/*
 * source.h - a line of a program's source.
 *
 * Owns: nothing; the line goes into the caller's arena.
 * Threads: any.
 * Fails: NULL where the file cannot be read, or the process itself might not read it.
 * Not here: which line (snapshot.h).
 */
#ifndef PB_STACK_SOURCE_H
#define PB_STACK_SOURCE_H

#include <sys/types.h>

#include "host/text/arena.h"

/*
 * Line number `line` of a file as process `pid` sees it, without indentation and end of line.
 * The path comes from the process: what it has no right to read is not shown to others, either.
 */
const char *pb_source_line(pid_t pid, uid_t uid, const char *path, int line, struct pb_arena *a,
                           int *ret_indentation);

/* The whole file under the same rule, terminated; NULL where it cannot be read. */
char *pb_source_text(pid_t pid, uid_t uid, const char *path, struct pb_arena *a);

#endif
