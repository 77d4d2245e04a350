#include "host/process/proc.h"
#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(tid, INT, "", "thread id")                                                                  \
    X(name, NAME, "", "name that the kernel knows")                                               \
    X(cpu_pct, REAL, "%", "CPU time used; 100 is one core")                                       \
    X(wait_ms, REAL, "ms", "ready but without a CPU, since the last look")                        \
    X(state, NAME, "", "running, waiting, disk, stopped, traced")                                 \
    X(wchan, NAME, "", "kernel function it waits in")                                             \
    PB_SAMPLE_OF_PROCESS(X)

PB_TABLE_COLUMNS(COLUMNS);

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_thread = {
    .ring = {PB_TABLE_SPEC("system.thread",
                           "threads of Python processes: a row for each that ran since the last "
                           "look, and one when it is first seen"),
             .rows = 16384,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .tick = tick,
};

static void add_row(struct pb_ring *ring, const struct pb_sample_tick *t,
                    const struct pb_sampled *p, const struct pb_sampled_thread *x)
{
    union pb_cell row[NCOLUMNS];
    struct pb_proc_stat stat;
    char wchan[64];

    if (pb_proc_stat(&stat, p->pid, x->tid, NULL) < 0)
        return;
    pb_sample_row(row, &pb_sampler_system_thread, t);
    row[AT_tid].i = x->tid;
    row[AT_name].name = pb_sample_name(ring, stat.comm);
    if (!x->fresh) {
        row[AT_cpu_pct].d = pb_sample_rate(x->run_ns, 0, 1e7, t->seconds);
        if (p->timed)
            row[AT_wait_ms].d = (double)x->wait_ns / 1e6;
    }
    row[AT_state].name = pb_sample_name(ring, pb_proc_state_name(stat.state));
    if (stat.state != 'R') {
        pb_proc_wchan(wchan, sizeof wchan, p->pid, x->tid);
        row[AT_wchan].name = pb_sample_name(ring, wchan[0] ? wchan : NULL);
    }
    row[AT_pid].i = p->pid;
    row[AT_rank].i = pb_sample_rank(p);
    pb_ring_append(ring, row);
}

/* A thread that was not given a CPU cannot have changed its state. */
static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    (void)state;
    for (size_t i = 0; i < t->nprocesses; i++) {
        const struct pb_sampled *p = &t->processes[i];

        for (size_t k = 0; k < p->nthreads; k++) {
            if (p->threads[k].ran || p->threads[k].fresh)
                add_row(ring, t, p, &p->threads[k]);
        }
    }
}
