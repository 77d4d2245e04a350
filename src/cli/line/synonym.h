/*
 * synonym.h - words that are no command here, and what comes nearest to what they mean.
 *
 * Owns: nothing. Threads: any. Fails: never.
 * Not here: misspelt commands (host/text/nearest.h).
 */
#ifndef PB_CLI_LINE_SYNONYM_H
#define PB_CLI_LINE_SYNONYM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Commands, as one would type them: "backtrace -w 1, profile"; NULL for a word without meaning.
 * ours: only words of this project's own descriptions, which never mean a target.
 */
const char *pb_synonym_find(const char *word, bool ours);

#endif
