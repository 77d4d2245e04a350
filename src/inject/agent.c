/* The agent that this executable carries, put into a process. */
#include "inject/inject.h"

int pb_inject_agent(pid_t pid, const char *options, int timeout_ms, bool force,
                    struct pb_inject_report *ret, struct pb_err *err)
{
    struct pb_inject_opts o = {
        .library = pb_payload_start,
        .library_size = (size_t)(pb_payload_end - pb_payload_start),
        .entry = "probing_start",
        .options = options ? options : "",
        .timeout_ms = timeout_ms > 0 ? timeout_ms : PB_INJECT_TIMEOUT_MS,
        .force = force,
    };

    return pb_inject(pid, &o, ret, err);
}
