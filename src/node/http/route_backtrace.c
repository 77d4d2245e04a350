/*
 * GET /api/backtrace - stacks, read from outside.
 */
#include <stdlib.h>
#include <string.h>

#include "base/home.h"
#include "host/proc.h"
#include "node/http/request.h"
#include "node/node.h"
#include "show/stack.h"

#define PROCESSES_MAX 256
#define FRAMES 200

static void run(struct pb_request *rq);

const struct pb_route pb_route_backtrace = {
    .method = "GET",
    .path = "/api/backtrace",
    .doc = "stacks: ?target=&tid=&all=&locals=&native=&pause=one|never|all&limit=&format=json|text"
           "&secrets=&width=&colour=&verbose=&subprocesses=",
    .run = run,
};

static int whole(struct pb_request *rq, const char *name, long most, long *v, struct pb_err *err)
{
    const char *text = pb_http_param(rq->head, name, rq->arena);
    char *end;

    if (!text)
        return 0;
    *v = strtol(text, &end, 10);
    if (!*text || *end || *v < 0 || *v > most)
        return pb_err_set(err, PB_USAGE, "%s: '%.20s' is no number up to %ld", name, text, most);
    return 0;
}

static int read_question(struct pb_request *rq, struct pb_snapshot_opts *o, struct pb_print *out,
                         bool *json, struct pb_err *err)
{
    const char *format = pb_http_param(rq->head, "format", rq->arena);
    const char *pause = pb_http_param(rq->head, "pause", rq->arena);
    long tid = 0, limit = FRAMES, width = 0;

    if (whole(rq, "tid", INT32_MAX, &tid, err) < 0 || whole(rq, "limit", 200000, &limit, err) < 0 ||
        whole(rq, "width", 10000, &width, err) < 0)
        return -1;
    *json = !format || strcmp(format, "json") == 0;
    if (!*json && strcmp(format, "text") != 0)
        return pb_err_set(err, PB_USAGE, "format '%.20s' is neither json nor text", format);
    *o = (struct pb_snapshot_opts){
        .all = pb_request_flag(rq, "all"),
        .tid = (pid_t)tid,
        .locals = pb_request_flag(rq, "locals"),
        .native = pb_request_flag(rq, "native"),
        .source = pb_request_flag(rq, "verbose") && rq->right >= PB_RIGHT_LOOK,
        .max_frames = (size_t)limit,
        .pause = !pause || strcmp(pause, "one") == 0 ? PB_PAUSE_ONE
                 : strcmp(pause, "never") == 0       ? PB_PAUSE_NEVER
                                                     : PB_PAUSE_ALL,
    };
    if (o->locals && rq->right < PB_RIGHT_LOOK)
        return pb_err_set(err, PB_DENIED, "local variables need a token of scope look");
    if (pb_request_flag(rq, "secrets") && rq->right < PB_RIGHT_CONTROL)
        return pb_err_set(err, PB_DENIED, "secrets need a token of scope control");
    out->width = (int)width;
    out->colour = pb_request_flag(rq, "colour");
    return 0;
}

struct family {
    struct pb_request *rq;
    struct pb_proc_status first;
};

/* A child that became another user's, or that the token does not reach, is left out. */
static bool is_within(pid_t pid, void *arg)
{
    const struct family *f = arg;
    struct pb_proc_status st;

    return pb_proc_status(&st, pid, NULL) == 0 && st.euid == f->first.euid &&
           pb_request_reaches(f->rq, pid, pb_home_start_time(pid));
}

static int show(struct pb_request *rq, pid_t pid, const struct pb_snapshot_opts *o, bool json,
                struct pb_print *out, struct pb_err *err)
{
    struct family family = {.rq = rq};
    const struct pb_stack_tree_opts tree = {.json = json,
                                            .verbose = pb_request_flag(rq, "verbose"),
                                            .secrets = pb_request_flag(rq, "secrets"),
                                            .within = is_within,
                                            .arg = &family};
    struct pb_snapshot snap;
    struct pb_target *t;
    int rc;

    if (pb_request_flag(rq, "subprocesses"))
        return pb_proc_status(&family.first, pid, err) < 0
                   ? -1
                   : pb_stack_tree(out, pid, o, &tree, err);
    if (pb_target_open(&t, pid, NULL, err) < 0)
        return -1;
    rc = pb_target_snapshot(t, o, rq->arena, &snap, err);
    if (rc == 0 && !pb_request_flag(rq, "secrets"))
        pb_stack_mask(&snap, rq->arena);
    if (rc == 0 && json)
        pb_stack_json(&out->buf, &snap, o);
    else if (rc == 0)
        pb_stack_text(out, &snap, o, pb_request_flag(rq, "verbose"));
    pb_target_close(t);
    return rc;
}

/* Several, when they share a port: one line of JSON each, or their texts below each other. */
static int show_all(struct pb_request *rq, struct pb_print *out, bool *json, struct pb_err *err)
{
    struct pb_snapshot_opts o;
    struct pb_scope scope;
    size_t shown = 0;

    if (read_question(rq, &o, out, json, err) < 0 || pb_request_scope(rq, &scope, err) < 0)
        return -1;
    if (scope.all || scope.nprocesses > PROCESSES_MAX)
        return pb_err_set(err, PB_USAGE,
                          "which process? name it as target; GET /api/processes "
                          "lists them");
    for (size_t i = 0; i < scope.nprocesses && !atomic_load(rq->gone); i++) {
        struct pb_err why = {0};
        pid_t pid = scope.processes[i].pid;

        if (!scope.processes[i].live)
            pb_err_set(&why, PB_NO_TARGET, "%d: has ended", (int)pid);
        else if (!*json && scope.nprocesses > 1)
            pb_print_f(out, "%sProcess %d\n", shown ? "\n" : "", (int)pid);
        if (why.code == PB_OK && show(rq, pid, &o, *json, out, &why) == 0)
            shown++;
        else if (!err->code)
            *err = why;
    }
    if (shown)
        *err = (struct pb_err){0};
    return shown ? 0 : -1;
}

static void run(struct pb_request *rq)
{
    struct pb_print out = {.fd = -1};
    struct pb_err err = {0};
    bool json;

    if (show_all(rq, &out, &json, &err) < 0) {
        pb_reply_error(rq, &err, -1, NULL);
    } else {
        pb_reply_begin(rq, 200, json ? "application/x-ndjson" : "text/plain; charset=utf-8");
        pb_reply_write(rq, out.buf.data, out.buf.len);
        pb_reply_end(rq);
    }
    pb_buf_finish(&out.buf);
}
