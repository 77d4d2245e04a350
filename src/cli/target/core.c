#include "cli/target/core.h"

#include "cli/target/core_unpack.h"
#include "display/stack.h"
#include "stack/core_stacks.h"

int pb_cli_core_open(struct pb_ctx *ctx, struct pb_core *core)
{
    uid_t owner;
    int fd = pb_core_unpack(ctx, &owner, &ctx->err);

    if (fd < 0 || pb_core_open(core, fd, owner, ctx->exe, &ctx->err) < 0)
        return pb_err_prefix(&ctx->err, "%s", ctx->core);
    if (core->replaced)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s is not the file that this "
                                           "process used", core->replaced));
    if (core->missing)
        pb_ctx_notice(ctx, pb_arena_printf(&ctx->arena, "probing: %s is not here; --exe takes the "
                                           "file, or a folder with those of the other machine",
                                           core->missing));
    return 0;
}

static int show(struct pb_ctx *ctx, struct pb_core_stacks *stacks, const struct pb_stack_opts *o,
                bool json)
{
    struct pb_snapshot snap;
    struct pb_stack_process p = {.snapshot = &snap};

    if (pb_core_stacks_read(stacks, &o->snapshot, &ctx->arena, &snap, &ctx->err) < 0)
        return -1;
    if (!o->secrets)
        pb_stack_mask(&snap, &ctx->arena);
    if (json)
        pb_stack_json(&ctx->out.buf, &p, &o->snapshot);
    else
        pb_stack_text(&ctx->out, &snap, &o->snapshot, ctx->verbose);
    if (ctx->verbose)
        pb_stack_verbose(&snap);
    return 0;
}

int pb_cli_core_stacks(struct pb_ctx *ctx, const struct pb_stack_opts *o, bool json)
{
    struct pb_core_stacks stacks;
    struct pb_core core;
    int rc;

    if (pb_cli_core_open(ctx, &core) < 0)
        return -1;
    rc = pb_core_stacks_open(&stacks, &core, &ctx->err);
    if (rc == 0) {
        rc = show(ctx, &stacks, o, json);
        pb_core_stacks_close(&stacks);
    }
    pb_core_close(&core);
    return rc < 0 ? pb_err_prefix(&ctx->err, "%s", ctx->core) : 0;
}
