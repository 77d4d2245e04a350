#include "node/http/process_agent.h"

#include "host/process/proc.h"
#include "inject/inject.h"

#define OPEN_TIMEOUT_MS 5000

int pb_request_agent(struct pb_request *rq, pid_t pid, bool inject, struct pb_agent *ret,
                     struct pb_err *err)
{
    struct pb_inject_report report;
    struct pb_err why = {0};

    if (pb_agent_open(ret, pid, OPEN_TIMEOUT_MS, &why) == 0) {
        pb_agent_introduce(ret, &rq->client);
        return 0;
    }
    if (why.code != PB_NO_TARGET || !inject)
        return pb_err_set(err, why.code, "%s", why.msg);
    if (pb_proc_check_access(pid, NULL, err) < 0 ||
        pb_inject_agent(pid, "", 0, false, &report, err) < 0)
        return -1;
    if (pb_agent_open(ret, pid, OPEN_TIMEOUT_MS, err) < 0)
        return -1;
    pb_agent_introduce(ret, &rq->client);
    return 0;
}
