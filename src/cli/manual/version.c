#include "cli/cmd.h"

static int run(struct pb_ctx *ctx);

const struct pb_cmd pb_cmd_version = {
    .name = "version",
    .summary = "Print version",
    .run = run,
};

static int run(struct pb_ctx *ctx)
{
    pb_print_puts(&ctx->out, "probing " PB_VERSION "\n");
    return 0;
}
