/*
 * python.crashes - what ended processes of this user: reports of crashes, without their stacks.
 */
#include <string.h>

#include "host/os/crash_files.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(timestamp, TIME, "", "when it crashed")                                                      \
    X(id, NAME, "", "id of the report: probing crashes ID")                                        \
    X(kind, NAME, "", "signal, or exception")                                                      \
    X(cause, TEXT, "", "what happened, in one line")                                               \
    X(signal, NAME, "", "SIGSEGV, …; NULL for an exception")                                       \
    X(exception, NAME, "", "class of the exception; NULL for a signal")                            \
    X(func, NAME, "", "innermost Python function of the thread that crashed")                      \
    X(file, NAME, "", "source file of func")                                                       \
    X(lineno, INT, "", "line of func")                                                             \
    X(own_func, NAME, "", "innermost function of the program's own code that crashed")             \
    X(own_file, NAME, "", "source file of own_func")                                               \
    X(own_line, INT, "", "line of own_func")                                                       \
    X(thread, NAME, "", "name of the thread that crashed")                                         \
    X(tid, INT, "", "id of the thread that crashed")                                               \
    X(step, INT, "", "training step")                                                              \
    X(module, NAME, "", "module that was being called")                                            \
    X(collective, NAME, "", "operation between ranks that it was in, or that began last")          \
    X(rss_mb, REAL, "MB", "resident memory")                                                       \
    X(command, TEXT, "", "command line, secrets masked")                                           \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_crashes = {
    PB_TABLE_SPEC("python.crashes", "crashes of processes with crash reports on (inject -c)"),
    .fill = fill,
};

static const struct {
    size_t at;
    const char *key;
} texts[] = {
    {AT_kind, "kind"},       {AT_cause, "cause"},   {AT_signal, "signal"},
    {AT_thread, "thread"},   {AT_module, "module"}, {AT_collective, "collective"},
    {AT_command, "command"}, {AT_exception, "exception"},
};

/* A process of that number, while it lived; without a target every one. */
static bool is_asked_for(const struct pb_scope *s, pid_t pid, int64_t time_ns)
{
    if (pb_scope_is_node(s))
        return true;
    for (size_t i = 0; i < s->nprocesses; i++)
        if (s->processes[i].pid == pid && s->processes[i].since_ns <= time_ns)
            return true;
    return false;
}

static void set_text(struct pb_rows *rows, struct pb_row_cell *row, size_t at,
                     const struct pb_json *object, const char *key)
{
    const char *value = pb_json_str(object, key, NULL);

    if (value)
        pb_rows_text(rows, row, at, value);
}

static void set_place(struct pb_rows *rows, struct pb_row_cell *row, const struct pb_json *place,
                      size_t func, size_t file, size_t line)
{
    if (!place)
        return;
    set_text(rows, row, func, place, "func");
    set_text(rows, row, file, place, "file");
    if (pb_json_whole(place, "lineno", 0) > 0)
        pb_rows_int(row, line, pb_json_whole(place, "lineno", 0));
}

static void add(struct pb_rows *rows, const struct pb_crash_file *f, pid_t pid, int64_t time_ns)
{
    const struct pb_json *head = f->head;
    struct pb_row_cell *row = pb_rows_add(rows);

    pb_rows_int(row, AT_timestamp, time_ns);
    pb_rows_text(rows, row, AT_id, f->id);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        set_text(rows, row, texts[i].at, head, texts[i].key);
    set_place(rows, row, pb_json_get(head, "at"), AT_func, AT_file, AT_lineno);
    set_place(rows, row, pb_json_get(head, "user"), AT_own_func, AT_own_file, AT_own_line);
    pb_rows_int(row, AT_tid, pb_json_whole(head, "tid", 0));
    if (pb_json_whole(head, "step", INT64_MIN) != INT64_MIN)
        pb_rows_int(row, AT_step, pb_json_whole(head, "step", 0));
    if (pb_json_number(head, "rss_mb", -1) >= 0)
        pb_rows_real(row, AT_rss_mb, pb_json_number(head, "rss_mb", 0));
    pb_live_common(rows, row, pb_json_str(head, "host", ""), pid,
                   pb_json_whole(head, "rank", -1));
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_crash_file *v = NULL;
    size_t count = 0;
    int rc = 0;

    (void)wanted;
    if (n->opts.data_dir)
        rc = pb_crash_files_list(n->opts.data_dir, &a, &v, &count, err);
    for (size_t i = 0; i < count; i++) {
        pid_t pid = (pid_t)pb_json_whole(v[i].head, "pid", 0);
        int64_t time_ns = pb_json_whole(v[i].head, "time_ns", 0);

        if (is_asked_for(scope, pid, time_ns))
            add(rows, &v[i], pid, time_ns);
    }
    pb_arena_finish(&a);
    return rc;
}
