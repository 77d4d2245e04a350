/*
 * kernel_log.h - lines of the kernel's log, where this user may read it.
 *
 * Owns: nothing; texts go into the caller's arena.
 * Threads: any.
 * Fails: never; a log that may not be read has no lines.
 * Not here: what a line means.
 */
#ifndef PB_HOST_OS_KERNEL_LOG_H
#define PB_HOST_OS_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "host/text/arena.h"

/*
 * The last max lines that contain `part` and are not older than seconds; returns how many. Looks
 * for at most a twentieth of a second.
 */
size_t pb_kernel_log(const char *part, int seconds, const char **lines, size_t max,
                     struct pb_arena *a);

/* False when the line names another process ("pid=4242"); many lines name none. */
bool pb_kernel_line_fits(const char *line, pid_t pid);

#endif
