#include "cli/client/stacks.h"

#include "display/stack.h"

int pb_stacks_open(struct pb_ctx *ctx, struct pb_stacks *s, const struct pb_stack_opts *o)
{
    struct pb_buf path = PB_BUF_INIT;

    *s = (struct pb_stacks){.opts = *o};
    s->opts.snapshot.tracer = &s->tracer;
    if (!ctx->remote && o->subprocesses)
        return 0;
    if (!ctx->remote)
        return pb_target_open(&s->target, ctx->pid, ctx->command_line, &ctx->err);
    pb_buf_puts(&path, "/api/backtrace?");
    pb_stack_opts_write(o, &path);
    if (ctx->scope) {
        pb_buf_puts(&path, "&target=");
        pb_http_encode(&path, ctx->scope);
    }
    s->path = pb_arena_strdup(&ctx->arena, path.data);
    pb_buf_finish(&path);
    return pb_nodelink_open(ctx, &s->node);
}

void pb_stacks_close(struct pb_stacks *s)
{
    pb_target_close(s->target);
    pb_nodelink_close(&s->node);
}

/* Those of a shared port, below each other. */
static void draw_each(struct pb_ctx *ctx, const struct pb_stacks *s,
                      const struct pb_stack_process *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (n > 1)
            pb_print_f(&ctx->out, "%sProcess %d\n", i ? "\n" : "", (int)v[i].snapshot->pid);
        pb_stack_text(&ctx->out, v[i].snapshot, &s->opts.snapshot, ctx->verbose);
    }
}

static void draw(struct pb_ctx *ctx, const struct pb_stacks *s, const struct pb_stack_process *v,
                 size_t n, bool json)
{
    for (size_t i = 0; json && i < n; i++)
        pb_stack_json(&ctx->out.buf, &v[i], &s->opts.snapshot);
    if (!json && n && v[0].family)
        pb_stack_tree_text(&ctx->out, v, n, ctx->verbose);
    else if (!json)
        draw_each(ctx, s, v, n);
}

static int show_far(struct pb_ctx *ctx, struct pb_stacks *s, bool json)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_buf answer = PB_BUF_INIT;
    struct pb_stack_process *v;
    size_t n;
    int rc = pb_nodelink_ask(ctx, &s->node, "GET", s->path, NULL, &answer);

    if (rc == 0 && json) {
        pb_print_foreign(&ctx->out, answer.data, answer.len);
    } else if (rc == 0) {
        rc = pb_stack_parse(answer.data, answer.len, &a, &v, &n, &ctx->err);
        if (rc == 0)
            draw(ctx, s, v, n, false);
    }
    pb_buf_finish(&answer);
    pb_arena_finish(&a);
    return rc;
}

/* Reads one process of a tree; a Python that cannot be read is shown with the reason. */
static bool read_process(const struct pb_stacks *s, struct pb_stack_process *p,
                         struct pb_target **ret_target, struct pb_arena *a)
{
    struct pb_snapshot *snap = PB_NEW(a, struct pb_snapshot);

    if (!p->family->is_python || pb_target_open(ret_target, p->family->pid, NULL, &p->err) < 0 ||
        pb_target_snapshot(*ret_target, &s->opts.snapshot, a, snap, &p->err) < 0)
        return false;
    p->snapshot = snap;
    if (!s->opts.secrets)
        pb_stack_mask(snap, a);
    return true;
}

static int show_tree(struct pb_ctx *ctx, struct pb_stacks *s, bool json)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_tree_process *family;
    int n = pb_tree_read(ctx->pid, NULL, NULL, &a, &family, &ctx->err), shown = 0;
    struct pb_stack_process *v = PB_NEW_N(&a, struct pb_stack_process, (size_t)(n > 0 ? n : 0) + 1);
    struct pb_target **targets = PB_NEW_N(&a, struct pb_target *, (size_t)(n > 0 ? n : 0) + 1);
    const struct pb_err *first = NULL;

    for (int i = 0; i < n; i++) {
        v[i] = (struct pb_stack_process){.family = &family[i]};
        shown += read_process(s, &v[i], &targets[i], &a);
        if (!first && v[i].err.code != PB_OK)
            first = &v[i].err;
    }
    if (shown)
        draw(ctx, s, v, (size_t)n, json);
    else if (first)
        ctx->err = *first;
    else if (n >= 0)
        pb_err_set(&ctx->err, PB_FAIL, "%d: neither a Python process nor the parent of one",
                   (int)ctx->pid);
    for (int i = 0; i < n; i++)
        pb_target_close(targets[i]);
    pb_arena_finish(&a);
    return shown ? 0 : -1;
}

static int show_here(struct pb_ctx *ctx, struct pb_stacks *s, bool json)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_snapshot snap;
    struct pb_stack_process p = {.snapshot = &snap};
    int rc = pb_target_snapshot(s->target, &s->opts.snapshot, &a, &snap, &ctx->err);

    if (rc == 0 && !s->opts.secrets)
        pb_stack_mask(&snap, &a);
    if (rc == 0)
        draw(ctx, s, &p, 1, json);
    if (rc == 0 && s->opts.snapshot.source)
        pb_stack_verbose(&snap);
    pb_arena_finish(&a);
    return rc;
}

int pb_stacks_show(struct pb_ctx *ctx, struct pb_stacks *s, bool json)
{
    return ctx->remote            ? show_far(ctx, s, json)
           : s->opts.subprocesses ? show_tree(ctx, s, json)
                                  : show_here(ctx, s, json);
}
