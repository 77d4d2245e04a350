#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "node/http/request.h"
#include "node/parts.h"

#define PB_ROUTE(name) extern const struct pb_route pb_route_##name;
#include "node/http/routes/routes.def"
#undef PB_ROUTE

const struct pb_route *const pb_routes[] = {
#define PB_ROUTE(name) &pb_route_##name,
#include "node/http/routes/routes.def"
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
    return target && *target ? target : rq->reach;
}

/* Is the process one of those in the list, as this machine or as its container numbers it? */
static bool is_within(const char *reach, const struct pb_scope_process *p)
{
    while (*reach) {
        size_t len = strcspn(reach, ",");
        unsigned long long start;
        char word[PB_PROCESS_ID_MAX];
        int pid;

        snprintf(word, sizeof word, "%.*s", (int)len, reach);
        if ((p->id[0] && strcmp(word, p->id) == 0) || (sscanf(word, "%d-%llu", &pid, &start) == 2 &&
                                         pid == p->pid && start == p->start))
            return true;
        reach += len + (reach[len] == ',');
    }
    return false;
}

bool pb_request_reaches(const struct pb_request *rq, pid_t pid, uint64_t start)
{
    struct pb_scope_process p = {.pid = pid, .start = start};

    return !rq->reach || is_within(rq->reach, &p);
}

static int check_reach(struct pb_request *rq, const struct pb_scope *s, struct pb_err *err)
{
    bool within = !s->all;

    if (!rq->reach)
        return 0;
    if (!*rq->reach)
        return pb_err_set(err, PB_DENIED, "this token is for another process than this port");
    for (size_t i = 0; i < s->nprocesses && within; i++)
        within = is_within(rq->reach, &s->processes[i]);
    if (within)
        return 0;
    return pb_err_set(err, PB_DENIED, "out of reach: this port and token are for process %s only",
                      rq->reach);
}

int pb_request_scope(struct pb_request *rq, struct pb_scope *ret, struct pb_err *err)
{
    return pb_request_scope_of(rq, pb_request_target(rq), ret, err);
}

int pb_request_scope_of(struct pb_request *rq, const char *target, struct pb_scope *ret,
                        struct pb_err *err)
{
    if (target && strcmp(target, "all") == 0)
        target = NULL;
    if (pb_node_scope(rq->node, target, rq->arena, ret, err) < 0 ||
        check_reach(rq, ret, err) < 0)
        return -1;
    ret->no_look = rq->right < PB_RIGHT_LOOK;
    ret->no_control = rq->right < PB_RIGHT_CONTROL;
    ret->bounded = rq->reach;
    ret->client = &rq->client;
    return 0;
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

int pb_request_number(struct pb_request *rq, const char *name, double max, double *ret,
                      struct pb_err *err)
{
    const char *text = pb_http_param(rq->head, name, rq->arena);
    char *end;

    *ret = 0;
    if (!text || !*text)
        return 0;
    *ret = strtod(text, &end);
    if (*end || !(*ret >= 0 && *ret <= max))
        return pb_err_set(err, PB_USAGE, "%s: '%.40s' is no number from 0 to %.0f", name, text,
                          max);
    return 0;
}
