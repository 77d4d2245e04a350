/*
 * crash_show.h - reports of crashes for people and programs.
 *
 * Owns: nothing.
 * Threads: one.
 * Fails: never; what a report does not say is left out.
 * Not here: where reports lie (host/os/crash_files.h).
 */
#ifndef PB_CLI_CRASH_CRASH_SHOW_H
#define PB_CLI_CRASH_CRASH_SHOW_H

#include "host/os/crash_files.h"
#include "display/print.h"

void pb_crash_list_text(struct pb_print *out, const struct pb_crash_file *v, size_t n,
                        struct pb_arena *a);
/* One array. */
void pb_crash_list_json(struct pb_buf *out, const struct pb_crash_file *v, size_t n);
/* stacks: the second line of the report, or NULL. all: every thread. */
void pb_crash_show_text(struct pb_print *out, const struct pb_json *head, const char *stacks,
                        size_t len, bool all, bool verbose);
/* The report with its stacks as one object: "process". */
void pb_crash_show_json(struct pb_buf *out, const struct pb_crash_file *f, const char *stacks,
                        size_t len);

#endif
