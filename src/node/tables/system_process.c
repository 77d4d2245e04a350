/*
 * system.process - the Python processes of the user, for root everybody's, as of now.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/net/agent_socket.h"
#include "host/process/proc.h"
#include "host/python/processes.h"
#include "host/text/secret.h"
#include "node/discover/internal.h"
#include "node/tables/read/common.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(ppid, INT, "", "the process that started it")                                                \
    X(user, NAME, "", "whose it is")                                                               \
    X(command, TEXT, "", "command line; secrets are shown as ***")                                 \
    X(state, NAME, "", "running, waiting, disk, stopped, traced or ended")                         \
    X(threads, INT, "", "how many it has")                                                         \
    X(cpu_pct, REAL, "%", "CPU time over its life; 100 is one core")                               \
    X(rss_mb, REAL, "MB", "resident memory")                                                       \
    X(start_time, TIME, "", "when it began")                                                       \
    X(python_version, NAME, "", "version of the interpreter")                                      \
    X(attached, BOOL, "", "probes are in it")                                                      \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_system_process = {
    PB_TABLE_SPEC("system.process", "Python processes of this machine, now"),
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
    life = (double)(pb_clock_wall_ns() - since) / 1e9;
    row = pb_rows_add(rows);
    pb_rows_int(row, AT_ppid, st.ppid);
    pb_rows_text(rows, row, AT_user, p->user);
    pb_rows_text(rows, row, AT_command,
                 pb_secret_command(p->argv, p->argv_len, p->command, &rows->arena));
    pb_rows_text(rows, row, AT_state, p->state);
    pb_rows_int(row, AT_threads, p->threads);
    if (life > 0)
        pb_rows_real(row, AT_cpu_pct, 100.0 * (double)(st.utime + st.stime) /
                                       (double)sysconf(_SC_CLK_TCK) / life);
    pb_rows_real(row, AT_rss_mb, (double)status.rss_kb / 1024.0);
    pb_rows_int(row, AT_start_time, since);
    if (p->python.version[0])
        pb_rows_text(rows, row, AT_python_version, p->python.version);
    if (wanted[AT_attached])
        pb_rows_bool(row, AT_attached, pb_agent_present(p->pid));
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
