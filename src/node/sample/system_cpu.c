#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(cpu_pct, REAL, "%", "CPU time used; 100 is one core")                                       \
    X(user_pct, REAL, "%", "CPU time used in the process's own code")                             \
    X(system_pct, REAL, "%", "CPU time used in the kernel")                                       \
    X(rss_mb, REAL, "MB", "resident memory")                                                      \
    X(anon_mb, REAL, "MB", "resident memory without files and shared memory")                    \
    X(vms_mb, REAL, "MB", "address space")                                                        \
    X(threads, INT, "", "threads")                                                                \
    X(descriptors, INT, "", "open files, pipes, sockets; NULL before Linux 6.2")                  \
    X(voluntary_s, REAL, "1/s", "times a thread gave its CPU away to wait")                       \
    X(involuntary_s, REAL, "1/s", "times a thread had its CPU taken away")                        \
    X(wait_ms, REAL, "ms", "threads were ready but had no CPU, since the last row, summed up")    \
    X(minor_faults_s, REAL, "1/s", "page faults answered from memory")                            \
    X(major_faults_s, REAL, "1/s", "page faults that had to read from a disk")                    \
    X(state, NAME, "", "state of the main thread: running, waiting, disk, stopped, traced")       \
    PB_SAMPLE_OF_PROCESS(X)

PB_TABLE_COLUMNS(COLUMNS);

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_cpu = {
    .ring = {PB_TABLE_SPEC("system.cpu",
                           "CPU time, memory and waiting of each Python process, once an interval"),
             .rows = 16384,
             .dict_bytes = 4096,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .tick = tick,
};

static void add_threads(union pb_cell *row, const struct pb_sampled *p, double seconds)
{
    uint64_t voluntary = 0, involuntary = 0, wait_ns = 0;

    for (size_t i = 0; i < p->nthreads; i++) {
        voluntary += p->threads[i].voluntary;
        involuntary += p->threads[i].involuntary;
        wait_ns += p->threads[i].wait_ns;
    }
    row[AT_voluntary_s].d = pb_sample_rate(voluntary, 0, 1, seconds);
    row[AT_involuntary_s].d = pb_sample_rate(involuntary, 0, 1, seconds);
    if (p->timed)
        row[AT_wait_ms].d = (double)wait_ns / 1e6;
}

static void add_rates(union pb_cell *row, const struct pb_sampled *p, double seconds)
{
    double percent = (double)sysconf(_SC_CLK_TCK) / 100;
    const struct pb_sample_stat *now = &p->now, *before = &p->before;

    row[AT_cpu_pct].d = pb_sample_rate(now->utime + now->stime, before->utime + before->stime,
                                       percent, seconds);
    row[AT_user_pct].d = pb_sample_rate(now->utime, before->utime, percent, seconds);
    row[AT_system_pct].d = pb_sample_rate(now->stime, before->stime, percent, seconds);
    row[AT_minor_faults_s].d =
        pb_sample_rate(now->minor_faults, before->minor_faults, 1, seconds);
    row[AT_major_faults_s].d =
        pb_sample_rate(now->major_faults, before->major_faults, 1, seconds);
    add_threads(row, p, seconds);
}

static void add_anonymous(union pb_cell *row, pid_t pid)
{
    uint64_t resident, shared;
    const char *at;
    char text[160];

    if (pb_sample_file(text, sizeof text, "/proc/%d/statm", (int)pid) <= 0)
        return;
    at = text;
    if (pb_scan_skip(&at, 1) && pb_scan_u64(&at, &resident) && pb_scan_u64(&at, &shared) &&
        resident >= shared)
        row[AT_anon_mb].d = (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) /
                            PB_SAMPLE_MB;
}

/* The size of the folder is their number; older kernels say 0. Nothing is listed. */
static void add_descriptors(union pb_cell *row, pid_t pid)
{
    char path[40];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    if (stat(path, &st) == 0 && st.st_size > 0)
        row[AT_descriptors].i = st.st_size;
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    union pb_cell row[NCOLUMNS];

    (void)state;
    for (size_t i = 0; i < t->nprocesses; i++) {
        const struct pb_sampled *p = &t->processes[i];

        pb_sample_row(row, &pb_sampler_system_cpu, t);
        if (!p->fresh)
            add_rates(row, p, t->seconds);
        row[AT_rss_mb].d = (double)p->now.rss / PB_SAMPLE_MB;
        add_anonymous(row, p->pid);
        row[AT_vms_mb].d = (double)p->now.vms / PB_SAMPLE_MB;
        row[AT_threads].i = p->now.threads;
        add_descriptors(row, p->pid);
        row[AT_state].name = pb_sample_name(ring, pb_proc_state_name(p->now.state));
        row[AT_pid].i = p->pid;
        row[AT_rank].i = pb_sample_rank(p);
        pb_ring_append(ring, row);
    }
}
