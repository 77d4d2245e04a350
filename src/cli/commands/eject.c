/*
 * probing TARGET eject - stop the agent in a process.
 */
#include <unistd.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/client/link.h"
#include "host/net/agent_socket.h"
#include "host/process/proc.h"

#define EJECT_TIMEOUT_MS 10000
/* From the agent's last word to the end of its folder and its thread. */
#define LEAVING_NS 2000000000ull
#define NAP_US 200
#define REMOTE_NAP_US 20000

static int run(struct pb_ctx *ctx);

const struct pb_cmd pb_cmd_eject = {
    .name = "eject",
    .summary = "Remove the probes from the target process",
    .details = "Stops everything that the agent does in the process: its thread ends, its socket\n"
               "and its folder go away. The library stays mapped, without effect; a later inject\n"
               "uses it again.",
    .target = PB_TARGET_PROCESS,
    .job = PB_JOB_EACH,
    .remote = true,
    .examples = "probing 4242 eject  # leave the process as it was\n",
    .run = run,
};

/* Is it still to be found, through the node where it is? */
static bool is_found(struct pb_ctx *ctx)
{
    struct pb_agent agent;
    struct pb_err err = {0};
    bool found = pb_link_find(ctx, &agent, &err) == 0;

    pb_agent_close(&agent);
    return found;
}

/* What its thread has open it closes before it ends. */
static void await_end(struct pb_ctx *ctx)
{
    uint64_t until = pb_clock_ns() + LEAVING_NS;

    while ((ctx->remote ? is_found(ctx)
                        : pb_agent_present(ctx->pid) || pb_agent_thread(ctx->pid, &ctx->arena)) &&
           pb_clock_ns() < until)
        usleep(ctx->remote ? REMOTE_NAP_US : NAP_US);
}

static int open_agent(struct pb_ctx *ctx, struct pb_agent *agent)
{
    struct pb_err err = {0};

    if (!ctx->remote && pb_proc_check_access(ctx->pid, ctx->command_line, &ctx->err) < 0)
        return -1;
    if (ctx->remote ? pb_link_find(ctx, agent, &err) < 0 && err.code == PB_NO_TARGET
                    : !pb_agent_present(ctx->pid))
        return pb_err_set(&ctx->err, PB_FAIL, "%s: there are no probes in this process",
                          pb_link_who(ctx));
    if (ctx->remote) {
        ctx->err = err;
        return err.code == PB_OK ? 0 : -1;
    }
    return pb_agent_open(agent, ctx->pid, EJECT_TIMEOUT_MS, &ctx->err);
}

static int run(struct pb_ctx *ctx)
{
    enum pb_wire_result result = PB_WIRE_OK;
    const char *why = NULL;
    struct pb_agent agent;
    int rc;

    if (open_agent(ctx, &agent) < 0)
        return -1;
    rc = pb_agent_ask(&agent, PB_WIRE_EJECT, NULL, 0, NULL, 0, EJECT_TIMEOUT_MS, NULL, NULL,
                      &ctx->arena, &result, &why, &ctx->err);
    pb_agent_close(&agent);
    if (rc < 0)
        return -1;
    if (result != PB_WIRE_OK)
        return pb_err_set(&ctx->err, PB_FAIL, "%s: %s", pb_link_who(ctx),
                          why && *why ? why : "the agent did not stop");
    await_end(ctx);
    pb_print_f(&ctx->out, "Removed probes from process %s\n", pb_link_who(ctx));
    return 0;
}
