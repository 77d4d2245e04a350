/*
 * probing [TARGET] slow - diagnose, for this one question.
 */
#include "cli/diagnose/diagnose.h"

static int run(struct pb_ctx *ctx);

const struct pb_cmd pb_cmd_slow = {
    .name = "slow",
    .summary = "Say which rank or line makes a job slow",
    .details = "The same as `diagnose`, for verdicts of this kind only.",
    .options = pb_diagnose_options,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .examples = "probing 4242 slow\n"
                "probing job:train.py slow\n",
    .run = run,
};

static int run(struct pb_ctx *ctx)
{
    return pb_diagnose(ctx, "slow");
}
