/*
 * parse.h - from the words on the command line to a command with its values.
 *
 * Owns: nothing; everything goes into the context's arena.
 * Threads: one.
 * Fails: with PB_USAGE and one line that names the nearest word that exists.
 * Not here: what a target means (target.h), running.
 *
 * probing [OPTIONS] [TARGET] [COMMAND] [OPTIONS] [ARGUMENTS]
 *
 * Options that every command has may stand anywhere; a command's own stand
 * behind its name, where they win over a global one with the same letter.
 */
#ifndef PB_CLI_LINE_PARSE_H
#define PB_CLI_LINE_PARSE_H

#include "cli/cmd.h"

/* What a command line asks for instead of, or beside, running ctx->cmd. */
struct pb_request {
    bool help; /* for ctx->cmd, or for all when that is NULL */
    bool version;
};

/* Fills cmd, values, args, target, verbose and command_line. ctx->cmd stays NULL without one. */
int pb_parse(struct pb_ctx *ctx, struct pb_request *ret, int argc, char **argv);

/* The command nearest to a word, NULL when none is near. */
const char *pb_parse_nearest_command(const char *word);

#endif
