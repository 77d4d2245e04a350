/*
 * import.h - a recording out of a file that flamegraph, or another tool, has written.
 *
 * Owns: nothing; the recording is the caller's.
 * Threads: any.
 * Fails: PB_FAIL for what is neither collapsed stacks nor a sampled profile of speedscope. Files
 * are strangers' bytes: every number is checked.
 * Not here: opening the file.
 */
#ifndef PB_RECORDING_IMPORT_H
#define PB_RECORDING_IMPORT_H

#include "base/err.h"
#include "recording/recording.h"

/* ret is initialised on success only. */
int pb_import(const char *text, size_t len, struct pb_recording *ret, struct pb_err *err);

#endif
