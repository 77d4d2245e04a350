/*
 * profile_together.h - where the ranks of a job begin to be profiled together.
 *
 * Owns: nothing; texts live in the context's arena.
 * Threads: one.
 * Fails: never; where steps of the ranks cannot be matched it is said, and each begins by itself.
 * Not here: the profiler (scripts/profile.py).
 *
 * Ranks are matched by the collectives of all ranks so far, which at the end of a step are the same
 * on each of them (view rank_steps); without collectives by numbers of steps that come from the job
 * itself. A step some seconds ahead is chosen, so that each is told in time.
 */
#ifndef PB_CLI_PROFILE_PROFILE_TOGETHER_H
#define PB_CLI_PROFILE_PROFILE_TOGETHER_H

#include "cli/cmd.h"
#include "host/text/json.h"

/* Sets ctx->agreed, and leaves out processes of ctx->job that make no steps where others do. */
int pb_profile_agree(struct pb_ctx *ctx);

/* What tells the process from the others, for the name of a file: "rank3", or its pid. */
const char *pb_profile_who(struct pb_ctx *ctx);
/* "run.json" of one of several is "run.rank3.json". */
const char *pb_profile_name(struct pb_ctx *ctx, const char *path);
/* Says with which step it began, where that is the same one for all. */
void pb_profile_show_first(struct pb_ctx *ctx, const struct pb_json *head);

#endif
