/*
 * python.threads - the Python threads and what each is doing at the moment of the query.
 */
#include "host/process/proc.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(tid, INT, "", "thread id")                                                                   \
    X(thread, NAME, "", "the thread's name")                                                       \
    X(is_main, BOOL, "", "the process's first thread")                                             \
    X(holds_gil, BOOL, "", "the thread holds the GIL")                                             \
    X(waits_gil, BOOL, "", "the thread waits for the GIL")                                         \
    X(state, NAME, "", "running, idle, waiting or stopped")                                        \
    X(wchan, NAME, "", "system call or kernel function it sleeps in")                              \
    X(cpu_ms, REAL, "ms", "time on a CPU since the thread began")                                  \
    X(top_func, NAME, "", "innermost Python function")                                             \
    X(top_file, NAME, "", "source file of top_func")                                               \
    X(top_line, INT, "", "line of top_func that is being executed")                                \
    X(interpreter, INT, "", "interpreter whose code it runs, 0 the main one")                      \
    X(collecting_garbage, BOOL, "", "the thread collects garbage (3.7 and later)")                 \
    X(shutting_down, BOOL, "", "the interpreter is shutting down")                                 \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_threads = {
    PB_TABLE_SPEC("python.threads",
                  "Python threads, now: state, GIL, CPU time, innermost function"),
    .fill = fill,
};

static void add_thread(struct pb_node *n, const struct pb_live_process *p,
                       const struct pb_snapshot *s, const struct pb_thread *t, const bool *wanted,
                       struct pb_rows *rows)
{
    struct pb_row_cell *row = pb_rows_add(rows);
    uint64_t runs, ns;

    pb_rows_int(row, AT_tid, t->tid);
    pb_rows_text(rows, row, AT_thread, t->name);
    pb_rows_bool(row, AT_is_main, t->is_main);
    pb_rows_bool(row, AT_holds_gil, t->holds_gil);
    pb_rows_bool(row, AT_waits_gil, t->waits_gil);
    pb_rows_text(rows, row, AT_state, pb_state_name(t->state));
    pb_rows_text(rows, row, AT_wchan, t->wait);
    if (wanted[AT_cpu_ms] && pb_proc_schedstat(p->pid, t->tid, &runs, &ns))
        pb_rows_real(row, AT_cpu_ms, (double)ns / 1e6);
    if (t->nframes) {
        pb_rows_text(rows, row, AT_top_func, t->frames[0].func);
        pb_rows_text(rows, row, AT_top_file, t->frames[0].file);
        if (t->frames[0].lineno > 0)
            pb_rows_int(row, AT_top_line, t->frames[0].lineno);
    }
    if (t->python)
        pb_rows_int(row, AT_interpreter, t->interpreter);
    pb_rows_bool(row, AT_collecting_garbage, t->collecting);
    pb_rows_bool(row, AT_shutting_down, s->shutting_down);
    pb_live_common(rows, row, n->host, p->pid, p->rank);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_snapshot_opts o = {.all = true, .max_frames = 1};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, scope, wanted[AT_rank], &a, &v);
    struct pb_stack_batch *batch = pb_live_stacks(n, v, count, &o);

    (void)err;
    for (size_t i = 0; i < count; i++) {
        const struct pb_stack_read *r = pb_stack_batch_get(batch, i);

        for (size_t t = 0; r && r->err.code == PB_OK && t < r->snapshot.nthreads; t++)
            add_thread(n, &v[i], &r->snapshot, &r->snapshot.threads[t], wanted, rows);
    }
    pb_stack_batch_drop(batch);
    pb_arena_finish(&a);
    return 0;
}
