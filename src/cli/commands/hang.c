/*
 * probing [TARGET] hang - diagnose, for this one question.
 */
#include "cli/diagnose/diagnose.h"

static int run(struct pb_ctx *ctx);

const struct pb_cmd pb_cmd_hang = {
    .name = "hang",
    .summary = "Say why a process or job does not go on",
    .details = "The same as `diagnose`, for verdicts of this kind only.",
    .options = pb_diagnose_options,
    .target = PB_TARGET_SCOPE,
    .job = PB_JOB_TOGETHER,
    .examples = "probing 4242 hang\n"
                "probing job:train.py hang\n",
    .run = run,
};

static int run(struct pb_ctx *ctx)
{
    return pb_diagnose(ctx, "hang");
}
