/* memory_torch.c - probing TARGET memory --torch: live blocks of CUDA's allocator. */
#include "cli/memory/memory_torch.h"

#include <string.h>

#include "base/embed.h"
#include "cli/destination.h"
#include "cli/client/link.h"
#include "host/text/json.h"
#include "recording/stacks.h"
#include "display/amount.h"

PB_EMBED(script, "src/cli/scripts/torch_memory.py")

enum {
    SITES_SHOWN = 20,
    BYTES_WIDTH = 11,
    COUNT_WIDTH = 10,
    KIND_WIDTH = 11,
    SLACK_MS = 120000,      /* for the snapshot itself */
    HISTORY = 100000,       /* events that torch keeps for the export */
    HEAD_MAX = 64 << 20,
    BODY_MAX = 1 << 30,
};

/* A line of JSON, and the snapshot behind it. */
struct answer {
    struct pb_buf head, body;
    bool has_head, too_long;
};

static void collect(int fd, const void *data, size_t len, void *arg)
{
    struct answer *a = arg;
    const char *end;

    if (fd != 1)
        return;
    if (!a->has_head) {
        size_t part;

        end = memchr(data, '\n', len);
        part = end ? (size_t)(end - (const char *)data) : len;
        if (a->head.len + part <= HEAD_MAX)
            pb_buf_add(&a->head, data, part);
        if (!end)
            return;
        a->has_head = true;
        len -= part + 1;
        data = end + 1;
    }
    a->too_long |= a->body.len + len > BODY_MAX;
    if (!a->too_long)
        pb_buf_add(&a->body, data, len);
}

static int ask(struct pb_ctx *ctx, struct answer *a, bool exported, struct pb_json *ret)
{
    double secs = pb_opt_num(ctx, "duration", 0);
    struct pb_agent agent = {.fd = -1};
    struct pb_buf code = PB_BUF_INIT;
    struct pb_link_eval how = {.flags = PB_WIRE_OWN, .timeout_ms = (int)(secs * 1000) + SLACK_MS,
                               .sink = collect, .arg = a};
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    int rc;

    if (pb_link_open(ctx, &agent) < 0)
        return -1;
    pb_buf_printf(&code, "SECONDS, EXPORT, ENTRIES = %g, %s, %d\n%s", secs,
                  exported ? "True" : "False", HISTORY, script);
    how.code = code.data;
    how.len = code.len;
    rc = pb_link_eval(ctx, &agent, &how, &result, &why);
    ctx->interrupted = agent.interrupt;
    if (rc == 0 && !ctx->interrupted)
        rc = pb_link_explain(ctx, "memory", &how, &agent, result, why);
    if (rc == 0 && !ctx->interrupted)
        rc = pb_json_parse(&ctx->arena, a->head.data ? a->head.data : "", a->head.len, ret,
                           &ctx->err);
    pb_buf_finish(&code);
    pb_agent_close(&agent);
    return ctx->interrupted ? -1 : rc;
}

static const char *bytes(struct pb_ctx *ctx, const struct pb_json *row, const char *key)
{
    return pb_amount_bytes(&ctx->arena, pb_json_whole(row, key, 0), false);
}

static void put_site(struct pb_ctx *ctx, const struct pb_json *row)
{
    struct pb_print *out = &ctx->out;
    const char *file = pb_json_str(row, "file", ""), *module = pb_json_str(row, "module", "");

    pb_print_cell(out, PB_PLAIN, bytes(ctx, row, "bytes"), BYTES_WIDTH, true);
    pb_print_cell(out, PB_PLAIN,
                  pb_amount_count(&ctx->arena, pb_json_whole(row, "blocks", 0), false),
                  COUNT_WIDTH, true);
    pb_print_puts(out, "  ");
    pb_print_cell(out, PB_DIM, pb_json_str(row, "kind", ""), KIND_WIDTH, false);
    pb_print_puts(out, "  ");
    pb_print_text(out, PB_BOLD, pb_json_str(row, "func", ""));
    if (*file) {
        pb_print_puts(out, "  ");
        pb_print_text(out, PB_PLAIN, pb_stacks_short_file(file));
        pb_print_f(out, ":%lld", (long long)pb_json_whole(row, "lineno", 0));
    }
    if (*module) {
        pb_print_puts(out, "  in ");
        pb_print_text(out, PB_PLAIN, module);
    }
    pb_print_puts(out, "\n");
}

static void put_text(struct pb_ctx *ctx, const struct pb_json *head)
{
    size_t limit = (size_t)pb_opt_int(ctx, "limit", SITES_SHOWN);
    const struct pb_json *sites = pb_json_get(head, "sites");
    size_t n = sites && sites->type == PB_J_ARRAY ? sites->n : 0;
    struct pb_print *out = &ctx->out;

    pb_print_f(out, "process %s · CUDA: %s in %s blocks, %s held by the allocator\n",
               pb_link_who(ctx), bytes(ctx, head, "allocated"),
               pb_amount_count(&ctx->arena, pb_json_whole(head, "blocks", 0), false),
               bytes(ctx, head, "reserved"));
    pb_print_cell(out, PB_DIM, "in use", BYTES_WIDTH, true);
    pb_print_cell(out, PB_DIM, "blocks", COUNT_WIDTH, true);
    pb_print_puts(out, "  ");
    pb_print_cell(out, PB_DIM, "kind", KIND_WIDTH, false);
    pb_print_puts(out, "  by\n");
    for (size_t i = 0; i < n && i < limit; i++)
        put_site(ctx, &sites->items[i]);
    if (n > limit)
        pb_print_f(out, "%*s… %zu more\n", BYTES_WIDTH, "", n - limit);
}

static int write_file(struct pb_ctx *ctx, const struct answer *a, const char *path)
{
    struct pb_destination to;

    if (pb_destination_open(ctx, &to, path, false) < 0)
        return -1;
    pb_buf_add(&ctx->out.buf, a->body.data, a->body.len);
    return pb_destination_close(&to, true);
}

int pb_memory_torch(struct pb_ctx *ctx)
{
    bool json = pb_opt_flag(ctx, "json") || strcmp(pb_opt_str(ctx, "format", "text"), "json") == 0;
    const char *path = pb_opt_str(ctx, "output", NULL), *error;
    struct answer a = {.head = PB_BUF_INIT, .body = PB_BUF_INIT};
    struct pb_json head;
    int rc = pb_destination_check(ctx, path);

    if (rc == 0)
        rc = ask(ctx, &a, path != NULL, &head);

    error = rc == 0 ? pb_json_str(&head, "error", NULL) : NULL;
    if (error)
        rc = pb_err_set(&ctx->err, PB_FAIL, "%s: %s", pb_link_who(ctx), error);
    if (rc == 0 && a.too_long)
        rc = pb_err_set(&ctx->err, PB_FAIL, "%s: its snapshot is longer than %d MB",
                        pb_link_who(ctx), BODY_MAX >> 20);
    /* Before any text: what is printed meanwhile would go into the file. */
    if (rc == 0 && path)
        rc = write_file(ctx, &a, path);
    if (rc == 0 && json) {
        pb_print_foreign(&ctx->out, a.head.data, a.head.len);
        pb_buf_putc(&ctx->out.buf, '\n');
    } else if (rc == 0) {
        put_text(ctx, &head);
        if (path)
            pb_print_f(&ctx->out, "%s   (python -m torch.cuda._memory_viz trace_plot %s, or "
                                  "pytorch.org/memory_viz)\n", path, path);
    }
    pb_buf_finish(&a.head);
    pb_buf_finish(&a.body);
    return rc;
}
