/*
 * GET /api/backtrace - stacks, read from outside.
 */
#include <string.h>

#include "base/home.h"
#include "host/process/proc.h"
#include "node/http/request.h"
#include "node/parts.h"
#include "node/stacks/cache.h"
#include "display/stack.h"
#include "stack/options.h"

#define PROCESSES_MAX 256
#define TIMEOUT_MS 20000

static void run(struct pb_request *rq);

const struct pb_route pb_route_backtrace = {
    .method = "GET",
    .path = "/api/backtrace",
    .doc = "stacks: ?target=&tid=&all=&locals=&native=&pause=one|never|all&limit=&subprocesses="
           "&verbose=&secrets=&format=json|text",
    .run = run,
};

/* The processes asked for, and what was read of them. */
struct answer {
    struct pb_stack_process *v;
    struct pb_stack_read *wanted; /* what is to be read of each; pid 0: nothing */
    size_t n, cap;
};

static int read_question(struct pb_request *rq, struct pb_stack_opts *o, bool *json,
                         struct pb_err *err)
{
    const char *format = pb_http_param(rq->head, "format", rq->arena);

    for (const char *const *name = pb_stack_opt_names; *name; name++) {
        const char *value = pb_http_param(rq->head, *name, rq->arena);

        if (value && pb_stack_opts_set(o, *name, value, err) < 0)
            return -1;
    }
    *json = !format || strcmp(format, "json") == 0;
    if (!*json && strcmp(format, "text") != 0)
        return pb_err_set(err, PB_USAGE, "format '%.20s' is neither json nor text", format);
    o->snapshot.source &= rq->right >= PB_RIGHT_LOOK;
    if (o->snapshot.locals && rq->right < PB_RIGHT_LOOK)
        return pb_err_set(err, PB_DENIED, "local variables need a token of scope look");
    if (o->secrets && rq->right < PB_RIGHT_CONTROL)
        return pb_err_set(err, PB_DENIED, "secrets need a token of scope control");
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

static struct pb_stack_process *add(struct pb_request *rq, struct answer *a, pid_t pid,
                                    uint64_t start)
{
    if (a->n == a->cap) {
        size_t cap = a->cap ? a->cap * 2 : 16;

        a->v = pb_arena_grow(rq->arena, a->v, a->cap * sizeof *a->v, cap * sizeof *a->v);
        a->wanted = pb_arena_grow(rq->arena, a->wanted, a->cap * sizeof *a->wanted,
                                  cap * sizeof *a->wanted);
        a->cap = cap;
    }
    a->v[a->n] = (struct pb_stack_process){0};
    a->wanted[a->n] = (struct pb_stack_read){.pid = pid, .start = start};
    return &a->v[a->n++];
}

static int add_tree(struct pb_request *rq, struct answer *a, pid_t pid, struct pb_err *err)
{
    struct family f = {.rq = rq};
    struct pb_tree_process *v;
    int n = pb_proc_status(&f.first, pid, err) < 0
                ? -1
                : pb_tree_read(pid, is_within, &f, rq->arena, &v, err);

    for (int i = 0; i < n; i++)
        add(rq, a, v[i].is_python ? v[i].pid : 0, pb_home_start_time(v[i].pid))->family = &v[i];
    return n < 0 ? -1 : 0;
}

/* err: the first of them that has ended; the others count. */
static int list(struct pb_request *rq, bool trees, struct answer *a, struct pb_err *err)
{
    struct pb_scope scope;

    if (pb_request_scope(rq, &scope, err) < 0)
        return -1;
    if (scope.all || scope.nprocesses > PROCESSES_MAX)
        return pb_err_set(err, PB_USAGE,
                          "which process? name it as target; GET /api/processes "
                          "lists them");
    for (size_t i = 0; i < scope.nprocesses; i++) {
        const struct pb_scope_process *p = &scope.processes[i];

        if (!p->live)
            pb_err_set(err, PB_NO_TARGET, "%d: has ended", (int)p->pid);
        else if (trees)
            add_tree(rq, a, p->pid, err);
        else
            add(rq, a, p->pid, p->start);
    }
    return 0;
}

/* Leaves in a->v what can be shown: all of a tree, else those that could be read. */
static int take_results(struct pb_request *rq, struct answer *a, struct pb_stack_batch *b,
                        bool secrets, struct pb_err *err)
{
    size_t shown = 0, kept = 0;

    for (size_t i = 0; i < a->n; i++) {
        struct pb_stack_read *r = pb_stack_batch_get(b, i);
        struct pb_stack_process p = a->v[i];

        if (r && r->err.code == PB_OK && r->pid)
            p.snapshot = &r->snapshot;
        else if (r)
            p.err = r->err;
        else
            pb_err_set(&p.err, PB_TIMEOUT, "%d: not read in time", (int)a->wanted[i].pid);
        if (p.snapshot && !secrets)
            pb_stack_mask(p.snapshot, rq->arena);
        if (p.err.code != PB_OK && err->code == PB_OK)
            *err = p.err;
        if (p.snapshot || p.family)
            a->v[kept++] = p;
        shown += p.snapshot != NULL;
    }
    a->n = kept;
    if (!shown)
        return err->code != PB_OK ? -1
                                  : pb_err_set(err, PB_FAIL, "neither a Python process nor the "
                                                             "parent of one");
    *err = (struct pb_err){0};
    return 0;
}

static void put_text(struct pb_print *out, const struct answer *a, const struct pb_stack_opts *o,
                     bool verbose)
{
    if (a->v[0].family) {
        pb_stack_tree_text(out, a->v, a->n, verbose);
        return;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (a->n > 1)
            pb_print_f(out, "%sProcess %d\n", i ? "\n" : "", (int)a->v[i].snapshot->pid);
        pb_stack_text(out, a->v[i].snapshot, &o->snapshot, verbose);
    }
}

static void reply(struct pb_request *rq, const struct answer *a, const struct pb_stack_opts *o,
                  bool json)
{
    struct pb_print out = {.fd = -1};

    for (size_t i = 0; json && i < a->n; i++)
        pb_stack_json(&out.buf, &a->v[i], &o->snapshot);
    if (!json)
        put_text(&out, a, o, pb_request_flag(rq, "verbose"));
    pb_reply_begin(rq, 200, json ? "application/x-ndjson" : "text/plain; charset=utf-8");
    pb_reply_write(rq, out.buf.data, out.buf.len);
    pb_reply_end(rq);
    pb_buf_finish(&out.buf);
}

static void run(struct pb_request *rq)
{
    struct pb_stack_opts o = PB_STACK_OPTS_INIT;
    struct pb_stack_batch *batch = NULL;
    struct answer a = {0};
    struct pb_err err = {0};
    bool json, ok;

    ok = read_question(rq, &o, &json, &err) == 0 && list(rq, o.subprocesses, &a, &err) == 0;
    if (ok) {
        batch = pb_stack_cache_read(rq->node->stacks, a.wanted, a.n, &o.snapshot, TIMEOUT_MS);
        ok = take_results(rq, &a, batch, o.secrets, &err) == 0;
    }
    if (ok)
        reply(rq, &a, &o, json);
    else
        pb_reply_error(rq, &err, -1, NULL);
    pb_stack_batch_drop(batch);
}
