/* memory_core.c - probing --core FILE memory --heap: Python objects of a process that has died. */
#include "cli/memory/memory_core.h"

#include <string.h>

#include "cli/target/core.h"
#include "cli/memory/heap_show.h"
#include "cli/memory/memory_heap.h"
#include "host/text/secret.h"
#include "stack/python/code.h"

static int look(struct pb_ctx *ctx, struct pb_core *core, const struct pb_heap_opts *o,
                struct pb_py_location *loc, struct pb_heap *ret)
{
    struct pb_py_codes codes;
    struct pb_target_view view = {.pid = 0,
                                  .mem = &core->mem,
                                  .maps = &core->maps,
                                  .loc = loc,
                                  .codes = &codes,
                                  .tids = core->tids,
                                  .ntids = core->ntids,
                                  .bytes = core->bytes ? core->bytes : 1};
    int rc;

    if (pb_py_locate(loc, 0, &core->maps, &core->mem, &core->arena, &ctx->err) < 0)
        return -1;
    pb_py_codes_init(&codes, &core->mem, &loc->layout);
    rc = pb_heap_read_view(&view, o, &ctx->arena, ret, &ctx->err);
    pb_py_codes_finish(&codes);
    if (rc == 0 && o->type && !ret->type_found)
        return pb_err_set(&ctx->err, PB_FAIL, "no object of type '%s'", o->type);
    return rc;
}

int pb_memory_core(struct pb_ctx *ctx)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    struct pb_heap_shown shown = {.core = true, .type = pb_opt_str(ctx, "type", NULL),
                                  .types = (size_t)pb_opt_int(ctx, "limit", PB_MEMORY_TYPES_SHOWN)};
    struct pb_heap_opts o = {.containers = shown.type ? 0 : PB_MEMORY_CONTAINERS,
                             .type = shown.type};
    struct pb_py_location loc;
    struct pb_core core;
    struct pb_heap h;

    if (pb_opt_num(ctx, "watch", 0) > 0)
        return pb_err_set(&ctx->err, PB_USAGE, "--watch: nothing changes in a core file");
    if (pb_cli_core_open(ctx, &core) < 0)
        return -1;
    if (look(ctx, &core, &o, &loc, &h) < 0) {
        pb_core_close(&core);
        return pb_err_prefix(&ctx->err, "%s", ctx->core);
    }
    shown.pid = core.pid;
    shown.version = loc.version;
    shown.command = pb_secret_text(core.command, &ctx->arena);
    if (json)
        pb_heap_json(&ctx->out.buf, &shown, &h, NULL, &ctx->arena);
    else
        pb_heap_text(&ctx->out, &shown, &h, NULL, &ctx->arena);
    pb_core_close(&core);
    return 0;
}
