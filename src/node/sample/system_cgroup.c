#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"
#include "node/sample/cgroup.h"
#include "node/sample/procfile.h"
#include "node/sample/sampler.h"

#define COLUMNS(X)                                                                                \
    X(timestamp, TIME, "", "when the row was made")                                               \
    X(cgroup, NAME, "", "control group of the process")                                           \
    X(memory_mb, REAL, "MB", "memory of everything in the group, file cache included")            \
    X(memory_max_mb, REAL, "MB", "limit, of the group or one above it; none: no limit")           \
    X(oom_kills, INT, "", "processes of the group killed for lack of memory since it exists")     \
    X(cpu_limit, REAL, "cores", "CPU time it may use; none: no limit")                            \
    X(throttled_ms, REAL, "ms", "threads held back by cpu_limit, since the last look")            \
    X(throttled_periods, INT, "", "periods in which threads were held back, since the last look") \
    PB_SAMPLE_OF_PROCESS(X)

PB_TABLE_COLUMNS(COLUMNS);

/* Limits and the group itself rarely change. */
#define LOOK_AGAIN_NS 30000000000ull

struct member {
    uint64_t serial;
    uint64_t looked_ns, seen_ns;
    pid_t pid;
    int64_t rank;
    struct pb_cgroup group;
    struct pb_cgroup_now last;
};

struct state {
    struct pb_cgroup_mounts mounts;
    struct member of[PB_SAMPLED_MAX];
};

static int start(void *state, struct pb_err *err);
static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring);

const struct pb_sampler pb_sampler_system_cgroup = {
    .ring = {PB_TABLE_SPEC("system.cgroup",
                           "limits and use of each Python process's control group: a row when "
                           "something changes"),
             .rows = 8192,
             .flags = PB_RING_SHARED},
    .every_s = 1,
    .state_size = sizeof(struct state),
    .start = start,
    .tick = tick,
};

static int start(void *state, struct pb_err *err)
{
    struct state *s = state;

    if (!pb_cgroup_mounts_read(&s->mounts))
        return pb_err_set(err, PB_FAIL, "no control groups are mounted here");
    return 0;
}

static bool same(const struct pb_cgroup_now *a, const struct pb_cgroup_now *b)
{
    return a->memory == b->memory && a->oom_kills == b->oom_kills &&
           a->throttled_us == b->throttled_us && a->periods == b->periods;
}

static void add_row(const struct member *m, const struct pb_cgroup_now *now, bool known,
                    const struct pb_sample_tick *t, struct pb_ring *ring)
{
    union pb_cell row[NCOLUMNS];

    pb_sample_row(row, &pb_sampler_system_cgroup, t);
    row[AT_cgroup].name = pb_sample_name(ring, m->group.name);
    if (now->has_memory)
        row[AT_memory_mb].d = (double)now->memory / PB_SAMPLE_MB;
    if (m->group.memory_max != UINT64_MAX)
        row[AT_memory_max_mb].d = (double)m->group.memory_max / PB_SAMPLE_MB;
    if (now->has_oom_kills)
        row[AT_oom_kills].i = (int64_t)now->oom_kills;
    if (m->group.cpu_limit > 0)
        row[AT_cpu_limit].d = m->group.cpu_limit;
    if (now->has_throttled && known) {
        row[AT_throttled_ms].d = (double)(now->throttled_us - m->last.throttled_us) / 1000;
        row[AT_throttled_periods].i = (int64_t)(now->periods - m->last.periods);
    }
    row[AT_pid].i = m->pid;
    row[AT_rank].i = m->rank;
    pb_ring_append(ring, row);
}

/* A neighbour in the same group was asked in this round already. */
static const struct member *asked(const struct state *s, const struct pb_sample_tick *t, size_t n,
                                  const struct member *m)
{
    for (size_t i = 0; i < n; i++) {
        const struct member *other = &s->of[t->processes[i].slot];

        if (other->serial && strcmp(other->group.name, m->group.name) == 0)
            return other;
    }
    return NULL;
}

/* What the group counted in the second in which a process ended is told of that one, too. */
static void add_ends(struct state *s, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    for (size_t i = 0; i < PB_SAMPLED_MAX; i++) {
        struct member *m = &s->of[i];
        struct pb_cgroup_now now;

        if (!m->serial || m->seen_ns == t->mono_ns)
            continue;
        pb_cgroup_read(&now, &m->group);
        if (now.has_oom_kills && now.oom_kills > m->last.oom_kills)
            add_row(m, &now, true, t, ring);
        m->serial = 0;
    }
}

static void tick(void *state, const struct pb_sample_tick *t, struct pb_ring *ring)
{
    struct state *s = state;

    for (size_t i = 0; i < t->nprocesses; i++) {
        struct member *m = &s->of[t->processes[i].slot];

        m->seen_ns = m->serial == t->processes[i].serial ? t->mono_ns : m->seen_ns;
    }
    add_ends(s, t, ring);

    for (size_t i = 0; i < t->nprocesses; i++) {
        const struct pb_sampled *p = &t->processes[i];
        struct member *m = &s->of[p->slot];
        const struct member *neighbour;
        struct pb_cgroup_now now;
        bool known = m->serial == p->serial;

        if (!known || t->mono_ns - m->looked_ns > LOOK_AGAIN_NS) {
            m->serial = 0;
            if (!pb_cgroup_of(&m->group, &s->mounts, p->pid))
                continue;
            m->looked_ns = t->mono_ns;
        }
        m->pid = p->pid;
        m->rank = pb_sample_rank(p);
        m->seen_ns = t->mono_ns;
        neighbour = asked(s, t, i, m);
        if (neighbour)
            now = neighbour->last;
        else
            pb_cgroup_read(&now, &m->group);
        if (!known || !same(&now, &m->last))
            add_row(m, &now, known, t, ring);
        m->serial = p->serial;
        m->last = now;
    }
}
