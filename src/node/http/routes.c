#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "node/http/request.h"
#include "node/node.h"

#define PB_ROUTE(name) extern const struct pb_route pb_route_##name;
#include "node/http/routes.def"
#undef PB_ROUTE

const struct pb_route *const pb_routes[] = {
#define PB_ROUTE(name) &pb_route_##name,
#include "node/http/routes.def"
#undef PB_ROUTE
    NULL,
};

const char *pb_request_target(struct pb_request *rq)
{
    const struct pb_json *v = pb_json_get(rq->body, "target");
    const char *target = rq->body ? NULL : pb_http_param(rq->head, "target", rq->arena);

    /* A number is a pid; everything else is taken as it is written. */
    if (v && (v->type == PB_J_STRING || v->type == PB_J_INT))
        target = v->s;
    return target && *target ? target : rq->owners;
}

int pb_request_scope(struct pb_request *rq, struct pb_scope *ret, struct pb_err *err)
{
    const char *target = pb_request_target(rq);

    /* "all" is how a listener with owners is asked about the whole machine. */
    if (target && strcmp(target, "all") == 0)
        target = NULL;
    return pb_node_scope(rq->node, target, rq->arena, ret, err);
}

int pb_request_process(struct pb_request *rq, pid_t *ret, struct pb_err *err)
{
    struct pb_scope scope;

    if (pb_request_scope(rq, &scope, err) < 0)
        return -1;
    if (scope.all)
        return pb_err_set(err, PB_USAGE,
                          "which process? name it as target; GET /api/processes "
                          "lists them");
    if (scope.nprocesses != 1)
        return pb_err_set(err, PB_USAGE, "%zu processes share this port: name one as target (%s)",
                          scope.nprocesses, pb_request_target(rq));
    if (!scope.processes[0].live)
        return pb_err_set(err, PB_NO_TARGET, "%d: has ended; only its rows are left",
                          (int)scope.processes[0].pid);
    *ret = scope.processes[0].pid;
    return 0;
}

bool pb_request_flag(struct pb_request *rq, const char *name)
{
    const char *v = pb_http_param(rq->head, name, rq->arena);

    return v && (!*v || strcmp(v, "1") == 0 || strcasecmp(v, "true") == 0 ||
                 strcasecmp(v, "yes") == 0 || strcasecmp(v, "on") == 0);
}
