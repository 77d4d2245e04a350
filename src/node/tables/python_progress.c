/*
 * python.progress - where each training process is at the moment of the query: step, phase,
 * module, collective, by thread. Of a process that was killed: where it ended.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/tables/read/common.h"
#include "store/reader_progress.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(tid, INT, "", "thread id, as the process itself counts")                                     \
    X(step, INT, "", "step under way")                                                             \
    X(epoch, INT, "", "epoch under way")                                                           \
    X(steps_ended, INT, "", "steps that ended since the probes came")                              \
    X(since_step_ms, REAL, "ms", "since the last step ended")                                      \
    X(last_step_ms, REAL, "ms", "how long the last step took")                                     \
    X(makes_steps, BOOL, "", "the thread that makes the steps")                                    \
    X(phase, NAME, "", "data, forward, backward, optimizer, eval, other")                          \
    X(phase_ms, REAL, "ms", "since the phase began; NULL where it is other")                       \
    X(module, NAME, "", "innermost module under way that is known")                                \
    X(collective, NAME, "", "operation between ranks that the thread is in")                       \
    X(group_name, NAME, "", "process group of the collective")                                     \
    X(collective_seq, INT, "", "number of the collective in its group")                            \
    X(collective_ms, REAL, "ms", "since the collective began")                                     \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_progress = {
    PB_TABLE_SPEC("python.progress",
                  "where training processes are, now: step, phase, module, collective of each "
                  "thread"),
    .fill = fill,
};

enum { NAME_BYTES = 513 };

/* Times since then are only told of a living process: for a dead one they would grow for ever. */
static void set_since(struct pb_row_cell *row, int column, const struct pb_store *s, uint64_t ns)
{
    uint64_t now = pb_clock_ns();

    if (ns && s->process.live && ns <= now)
        pb_rows_real(row, column, (double)(now - ns) / 1e6);
}

static void set_name(struct pb_rows *rows, struct pb_row_cell *row, int column, int fd,
                     uint32_t name)
{
    char text[NAME_BYTES];

    if (pb_progress_text(fd, name, text, sizeof text))
        pb_rows_text(rows, row, column, text);
}

static void add_thread(struct pb_rows *rows, const struct pb_store *s, int fd,
                       const struct pb_progress *p, const struct pb_progress_at *t)
{
    struct pb_row_cell *row = pb_rows_add(rows);
    int64_t step = t->step != PB_NULL_INT ? t->step : p->step;

    pb_rows_int(row, AT_tid, t->tid);
    if (step != PB_NULL_INT)
        pb_rows_int(row, AT_step, step);
    if (p->epoch != PB_NULL_INT)
        pb_rows_int(row, AT_epoch, p->epoch);
    pb_rows_int(row, AT_steps_ended, (int64_t)p->steps_ended);
    set_since(row, AT_since_step_ms, s, p->step_ended_ns);
    if (p->step_took_ns)
        pb_rows_real(row, AT_last_step_ms, (double)p->step_took_ns / 1e6);
    pb_rows_bool(row, AT_makes_steps, t->tid == p->step_tid);
    pb_rows_text(rows, row, AT_phase, pb_progress_phase_name(t->phase));
    if (t->phase != PB_PHASE_OTHER)
        set_since(row, AT_phase_ms, s, t->phase_ns);
    set_name(rows, row, AT_module, fd, t->module);
    if (t->collective) {
        set_name(rows, row, AT_collective, fd, t->collective);
        set_name(rows, row, AT_group_name, fd, t->group);
        if (t->collective_seq != PB_NULL_INT)
            pb_rows_int(row, AT_collective_seq, t->collective_seq);
        set_since(row, AT_collective_ms, s, t->collective_ns);
    }
    pb_live_common(rows, row, s->host, s->process.pid, s->rank);
}

/* Its folder, if that is still what it was when it was found. */
static int open_folder(const struct pb_store *s)
{
    int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || (fstat(fd, &st) == 0 && st.st_uid == s->uid))
        return fd;
    close(fd);
    return -1;
}

static void add_store(struct pb_rows *rows, const struct pb_store *s)
{
    int folder = open_folder(s), fd = folder >= 0 ? pb_progress_open(folder) : -1;
    struct pb_err err = {0};
    struct pb_progress p;

    if (fd >= 0 && pb_progress_read(fd, &p, &err) == 0)
        for (uint32_t i = 0; i < p.nthreads; i++)
            add_thread(rows, s, fd, &p, &p.threads[i]);
    if (fd >= 0)
        close(fd);
    if (folder >= 0)
        close(folder);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_stores *stores = pb_discover_snapshot(n->discover, 0);

    (void)wanted;
    (void)err;
    for (size_t i = 0; i < stores->nstores; i++)
        if (pb_scope_has_id(scope, stores->stores[i]->process.id))
            add_store(rows, stores->stores[i]);
    pb_stores_unref(stores);
    return 0;
}
