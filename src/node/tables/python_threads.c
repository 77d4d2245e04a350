/*
 * python.threads - the Python threads and what each is doing at the moment of the query.
 */
#include "host/proc.h"
#include "node/tables/common.h"

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

enum {
    TID,
    THREAD,
    IS_MAIN,
    HOLDS_GIL,
    WAITS_GIL,
    STATE,
    WCHAN,
    CPU_MS,
    TOP_FUNC,
    TOP_FILE,
    TOP_LINE,
    INTERPRETER,
    COLLECTING,
    SHUTTING_DOWN,
};

static const struct pb_column_spec columns[] = {
    [TID] = {"tid", PB_INT, "", "thread id"},
    [THREAD] = {"thread", PB_NAME, "", "the thread's name"},
    [IS_MAIN] = {"is_main", PB_BOOL, "", "the process's first thread"},
    [HOLDS_GIL] = {"holds_gil", PB_BOOL, "", "the thread holds the GIL"},
    [WAITS_GIL] = {"waits_gil", PB_BOOL, "", "the thread waits for the GIL (3.7 and later)"},
    [STATE] = {"state", PB_NAME, "", "running, idle, waiting or stopped"},
    [WCHAN] = {"wchan", PB_NAME, "", "system call or kernel function it sleeps in"},
    [CPU_MS] = {"cpu_ms", PB_REAL, "ms", "time on a CPU since the thread began"},
    [TOP_FUNC] = {"top_func", PB_NAME, "", "innermost Python function"},
    [TOP_FILE] = {"top_file", PB_NAME, "", "its source file"},
    [TOP_LINE] = {"top_line", PB_INT, "", "line that is being executed"},
    [INTERPRETER] = {"interpreter", PB_INT, "", "interpreter whose code it runs, 0 the main one"},
    [COLLECTING] = {"collecting_garbage", PB_BOOL, "",
                    "the thread collects garbage (3.7 and later)"},
    [SHUTTING_DOWN] = {"shutting_down", PB_BOOL, "", "the interpreter is shutting down"},
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_python_threads = {
    .name = "python.threads",
    .doc = "Python threads, now: state, GIL, CPU time, innermost function",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
    .fill = fill,
};

static void add_thread(struct pb_node *n, const struct pb_live_process *p,
                       const struct pb_snapshot *s, const struct pb_thread *t, const bool *wanted,
                       struct pb_rows *rows)
{
    struct pb_row_cell *row = pb_rows_add(rows);
    uint64_t runs, ns;

    pb_rows_int(row, TID, t->tid);
    pb_rows_text(rows, row, THREAD, t->name);
    pb_rows_bool(row, IS_MAIN, t->is_main);
    pb_rows_bool(row, HOLDS_GIL, t->holds_gil);
    pb_rows_bool(row, WAITS_GIL, t->waits_gil);
    pb_rows_text(rows, row, STATE, pb_state_name(t->state));
    pb_rows_text(rows, row, WCHAN, t->wait);
    if (wanted[CPU_MS] && pb_proc_schedstat(p->pid, t->tid, &runs, &ns))
        pb_rows_real(row, CPU_MS, (double)ns / 1e6);
    if (t->nframes) {
        pb_rows_text(rows, row, TOP_FUNC, t->frames[0].func);
        pb_rows_text(rows, row, TOP_FILE, t->frames[0].file);
        if (t->frames[0].lineno > 0)
            pb_rows_int(row, TOP_LINE, t->frames[0].lineno);
    }
    if (t->python)
        pb_rows_int(row, INTERPRETER, t->interpreter);
    pb_rows_bool(row, COLLECTING, t->collecting);
    pb_rows_bool(row, SHUTTING_DOWN, s->shutting_down);
    pb_live_common(rows, row, n->host, p->pid, p->rank);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_snapshot_opts o = {.all = true, .max_frames = 1};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, scope, wanted[PB_COUNT_OF(columns) - 1], &a, &v);
    struct pb_target_batch *batch = pb_live_stacks(n, v, count, &o);

    (void)err;
    for (size_t i = 0; i < count; i++) {
        const struct pb_target_read *r = pb_target_batch_get(batch, i);

        for (size_t t = 0; r && r->err.code == PB_OK && t < r->snapshot.nthreads; t++)
            add_thread(n, &v[i], &r->snapshot, &r->snapshot.threads[t], wanted, rows);
    }
    pb_target_batch_drop(batch);
    pb_arena_finish(&a);
    return 0;
}
