/*
 * system.process - the Python processes of the user, for root everybody's, as of now.
 */
#include <string.h>
#include <unistd.h>

#include "host/agent.h"
#include "host/proc.h"
#include "host/secret.h"
#include "node/discover_internal.h"
#include "node/tables/common.h"
#include "unwind/processes.h"

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err);

enum {
    PPID,
    USER,
    COMMAND,
    STATE,
    THREADS,
    CPU_PCT,
    RSS_MB,
    START_TIME,
    PYTHON_VERSION,
    ATTACHED,
};

static const struct pb_column_spec columns[] = {
    [PPID] = {"ppid", PB_INT, "", "the process that started it"},
    [USER] = {"user", PB_NAME, "", "whose it is"},
    [COMMAND] = {"command", PB_TEXT, "", "command line; secrets are shown as ***"},
    [STATE] = {"state", PB_NAME, "", "running, waiting, disk, stopped, traced or ended"},
    [THREADS] = {"threads", PB_INT, "", "how many it has"},
    [CPU_PCT] = {"cpu_pct", PB_REAL, "%", "CPU time over its life; 100 is one core"},
    [RSS_MB] = {"rss_mb", PB_REAL, "MB", "resident memory"},
    [START_TIME] = {"start_time", PB_TIME, "", "when it began"},
    [PYTHON_VERSION] = {"python_version", PB_NAME, "", "of the interpreter"},
    [ATTACHED] = {"attached", PB_BOOL, "", "probes are in it"},
    PB_LIVE_COMMON,
};

const struct pb_live pb_live_system_process = {
    .name = "system.process",
    .doc = "Python processes of this machine, now",
    .columns = columns,
    .ncolumns = PB_COUNT_OF(columns),
    .fill = fill,
};

static void add_process(struct pb_node *n, const struct pb_process *p, const bool *wanted,
                        struct pb_rows *rows)
{
    struct pb_row_cell *row;
    struct pb_proc_status status;
    struct pb_proc_stat st;
    int64_t since;
    double life;

    if (pb_proc_stat(&st, p->pid, 0, NULL) < 0 || pb_proc_status(&status, p->pid, NULL) < 0)
        return;
    since = pb_process_since_ns(st.start_time);
    life = (double)(pb_now_ns() - since) / 1e9;
    row = pb_rows_add(rows);
    pb_rows_int(row, PPID, st.ppid);
    pb_rows_text(rows, row, USER, p->user);
    pb_rows_text(rows, row, COMMAND,
                 pb_secret_command(p->argv, p->argv_len, p->command, &rows->arena));
    pb_rows_text(rows, row, STATE, p->state);
    pb_rows_int(row, THREADS, p->threads);
    if (life > 0)
        pb_rows_real(row, CPU_PCT, 100.0 * (double)(st.utime + st.stime) /
                                       (double)sysconf(_SC_CLK_TCK) / life);
    pb_rows_real(row, RSS_MB, (double)status.rss_kb / 1024.0);
    pb_rows_int(row, START_TIME, since);
    if (p->python.version[0])
        pb_rows_text(rows, row, PYTHON_VERSION, p->python.version);
    if (wanted[ATTACHED])
        pb_rows_bool(row, ATTACHED, pb_agent_present(p->pid));
    pb_live_common(rows, row, n->host, p->pid, p->rank);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_process *v;
    int count = n->opts.store_dir ? 0 : pb_processes_read(&a, &v, err);

    /* Others' processes are theirs, though /proc shows them. */
    for (int i = 0; i < count; i++)
        if (pb_live_in_scope(scope, v[i].pid) && (geteuid() == 0 || v[i].uid == geteuid()))
            add_process(n, &v[i], wanted, rows);
    pb_arena_finish(&a);
    return count < 0 ? -1 : 0;
}
