#include "node/query/flame.h"

#include <string.h>

#include "host/text/json.h"
#include "host/text/secret.h"
#include "node/parts.h"
#include "node/query/lines.h"
#include "recording/history.h"

#define LAST_DEFAULT_S 600.0

static int ask(struct pb_node *n, const struct pb_flame_question *q, const char *sql,
               pb_query_take *take, void *arg, struct pb_err *err)
{
    struct pb_query query = {.sql = sql, .scope = q->scope, .cancelled = q->cancelled};

    return pb_query_lines(n, &query, take, arg, NULL, err);
}

/* The last and the first sample there is. */
static int take_end(void *arg, const char *line, size_t len, struct pb_err *err)
{
    struct pb_history_window *w = arg;
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_json row;

    if (len && line[0] == '[' && pb_json_parse(&a, line, len, &row, err) == 0 && row.n == 2 &&
        row.items[0].type == PB_J_INT && row.items[1].type == PB_J_INT) {
        w->to_ms = row.items[0].v.i;
        w->from_ms = row.items[1].v.i;
    }
    pb_arena_finish(&a);
    return 0;
}

static int find_window(struct pb_node *n, const struct pb_flame_question *q,
                       struct pb_history_window *ret, struct pb_err *err)
{
    const struct pb_flame_window *w = &q->window;
    double last_s = w->last_s > 0 ? w->last_s : LAST_DEFAULT_S;
    struct pb_history_window known = {INT64_MIN, w->to_ms};

    if (!w->to_ms &&
        ask(n, q, "SELECT epoch_ms(max(timestamp + to_milliseconds(weight_ms))), "
                  "epoch_ms(min(timestamp)) FROM python.samples", take_end, &known, err) < 0)
        return -1;
    if (!known.to_ms)
        return pb_err_set(err, PB_FAIL, "no samples; a process is sampled while it is probed and "
                                        "profile.rate is not 0");
    *ret = (struct pb_history_window){
        w->from_ms ? w->from_ms : known.to_ms - (int64_t)(last_s * 1000), known.to_ms};
    if (!w->from_ms && ret->from_ms < known.from_ms)
        ret->from_ms = known.from_ms; /* nothing was seen before */
    if (ret->to_ms <= ret->from_ms)
        return pb_err_set(err, PB_USAGE, "the window ends before it begins");
    return 0;
}

static int take_row(void *arg, const char *line, size_t len, struct pb_err *err)
{
    return pb_history_line(arg, line, len, err);
}

/* Command line and version of the first process: of a dead one, too. */
static void name_process(struct pb_node *n, const struct pb_scope *scope, struct pb_recording *r)
{
    struct pb_stores *stores = pb_discover_snapshot(n->discover, 2000);
    struct pb_arena *a = &r->stacks.arena;

    r->command = pb_arena_printf(a, "process %d", (int)r->pid);
    for (size_t i = 0; i < stores->nstores; i++) {
        const struct pb_store *s = stores->stores[i];
        const char *command = pb_store_value(s->meta, "command", a);

        if (s->process.pid != r->pid || !command || !pb_scope_has_id(scope, s->process.id))
            continue;
        r->command = pb_secret_text(command, a);
        r->python = pb_store_value(s->meta, "python", a);
    }
    pb_stores_unref(stores);
}

int pb_flame_load(struct pb_node *n, const struct pb_flame_question *q, struct pb_recording *ret,
                  struct pb_err *err)
{
    struct pb_history_window w;
    struct pb_buf sql = PB_BUF_INIT;
    struct pb_history *h;
    int rc;

    if (find_window(n, q, &w, err) < 0)
        return -1;
    pb_recording_init(ret);
    pb_history_sql(&sql, &w, q->where);
    h = pb_history_begin(ret, &w, q->by_function, q->by_process);
    rc = ask(n, q, sql.data, take_row, h, err);
    ret->processes = pb_history_processes(h);
    pb_history_end(h);
    pb_buf_finish(&sql);
    if (rc == 0 && !ret->samples)
        rc = pb_err_set(err, PB_FAIL, "no samples in that window");
    if (rc == 0)
        name_process(n, q->scope, ret);
    else
        pb_recording_finish(ret);
    return rc;
}
