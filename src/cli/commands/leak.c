/*
 * probing [TARGET] leak - diagnose, for this one question.
 */
#include "cli/diagnose/diagnose.h"

static int run(struct pb_ctx *ctx);

const struct pb_cmd pb_cmd_leak = {
    .name = "leak",
    .summary = "Say what grows in memory, and which line makes it",
    .details = "The same as `diagnose`, for verdicts of this kind only.",
    .options = pb_diagnose_options,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .examples = "probing 4242 leak\n"
                "probing job:train.py leak\n",
    .run = run,
};

static int run(struct pb_ctx *ctx)
{
    return pb_diagnose(ctx, "leak");
}
