#include "recording/sampler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "host/process/rank.h"
#include "host/text/secret.h"
#include "recording/internal.h"
#include "stack/stop/stop.h"

#define CHILDREN_NS 300000000u
/* A child that is no Python yet is looked at again this often: it is between fork and exec. */
#define CHILD_TRIES 10
#define PROCESSES_MAX 1024
/* Shares of the interval by which a tick comes earlier or later: a loop of the same pace as the
 * sampler is not met at the same place each time. */
#define JITTER 0.2
/* Looks that tell for how long threads are held. */
#define HELD_LOOKS 32

struct refused {
    pid_t pid;
    int tries;
};

struct pb_sampler {
    struct pb_sampler_opts opts;
    struct pb_prof_process **processes;
    size_t n, opened;
    struct refused *refused;
    size_t nrefused;
    uint64_t started_ns, ticked_ns, due_ns, children_ns;
    uint64_t cpu_at_start;
    uint64_t random;
    struct pb_recording rec;
    struct pb_tracer tracer;
};

/* One descriptor a thread: as many as may be had. */
static void raise_limit(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

/* Without the secrets that may be in it: what is recorded is made to be handed on. */
static const char *command_of(pid_t pid, struct pb_arena *a)
{
    const char *text = pb_proc_command(pid, a);
    size_t len = 0;
    char *words = pb_proc_read(pid, "cmdline", a, &len);

    return text ? pb_secret_command(words, words ? len : 0, text, a) : "";
}

static bool is_watched(const struct pb_sampler *s, pid_t pid)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->processes[i]->pid == pid)
            return true;
    return false;
}

/* The clocks of the recording start now. */
static void begin(struct pb_sampler *s)
{
    s->rec.started_ns = pb_clock_wall_ns();
    s->cpu_at_start = pb_clock_work_ns();
    s->started_ns = s->ticked_ns = s->due_ns = pb_clock_ns();
}

/* "rank 3, process 4242": what stands at the root for it. */
static uint32_t root_of(struct pb_sampler *s, pid_t pid)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_prof_frame f = {.file = command_of(pid, &a)};
    long rank, world;
    uint32_t node;

    pb_rank_read(pid, &a, &rank, &world);
    f.func = rank < 0 ? pb_arena_printf(&a, "process %d", (int)pid)
                      : pb_arena_printf(&a, "rank %ld, process %d", rank, (int)pid);
    node = pb_stacks_child(&s->rec.stacks, 0, &f);
    pb_arena_finish(&a);
    return node;
}

static void attach(struct pb_sampler *s, struct pb_prof_process *p)
{
    p->stale = true;
    p->tracer = &s->tracer;
    if (s->opts.by_process)
        p->root = root_of(s, p->pid);
    s->processes = pb_alloc_resize(s->processes, (s->n + 1) * sizeof *s->processes);
    s->processes[s->n++] = p;
    s->opened++;
}

struct pb_sampler *pb_sampler_create(const struct pb_sampler_opts *o)
{
    struct pb_sampler *s = pb_alloc_resize(NULL, sizeof *s);

    raise_limit();
    memset(s, 0, sizeof *s);
    s->opts = *o;
    pb_recording_init(&s->rec);
    s->rec.rate = o->rate;
    s->rec.python = s->rec.command = "";
    begin(s);
    s->random = s->started_ns | 1;
    return s;
}

int pb_sampler_add(struct pb_sampler *s, pid_t pid, const char *hint, struct pb_err *err)
{
    struct pb_prof_process *p;

    if (is_watched(s, pid))
        return 0;
    if (pb_prof_open(&p, pid, hint, err) < 0)
        return -1;
    attach(s, p);
    if (s->n == 1) {
        s->rec.pid = pid;
        s->rec.python = pb_arena_strdup(&s->rec.stacks.arena, p->loc.version);
        s->rec.command = command_of(pid, &s->rec.stacks.arena);
    }
    if (!s->rec.ticks)
        begin(s); /* what opening took is no part of the recording */
    return 0;
}

void pb_sampler_destroy(struct pb_sampler *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        pb_prof_close(s->processes[i]);
    free(s->processes);
    free(s->refused);
    pb_recording_finish(&s->rec);
    free(s);
}

static int tries_of(struct pb_sampler *s, pid_t pid)
{
    for (size_t i = 0; i < s->nrefused; i++)
        if (s->refused[i].pid == pid)
            return s->refused[i].tries++;
    s->refused = pb_alloc_resize(s->refused, (s->nrefused + 1) * sizeof *s->refused);
    s->refused[s->nrefused++] = (struct refused){pid, 1};
    return 0;
}

/* Descendants of the watched processes: of one that ended, too, as long as its child lives. */
static void find_children(struct pb_sampler *s)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_err ignored = {0};
    pid_t *pids;
    int n = pb_proc_pids(&a, &pids, &ignored);

    for (int i = 0; i < n && s->n < PROCESSES_MAX; i++) {
        struct pb_prof_process *p;
        struct pb_proc_stat st;

        memset(&ignored, 0, sizeof ignored);
        if (is_watched(s, pids[i]) || pb_proc_stat(&st, pids[i], 0, &ignored) < 0 ||
            !is_watched(s, st.ppid) || tries_of(s, pids[i]) > CHILD_TRIES)
            continue;
        memset(&ignored, 0, sizeof ignored);
        if (pb_prof_open(&p, pids[i], NULL, &ignored) == 0)
            attach(s, p);
    }
    pb_arena_finish(&a);
}

static void sample(struct pb_sampler *s, struct pb_prof_process *p, struct pb_prof_thread *t)
{
    uint64_t runs, now;

    if (!pb_prof_runs(t, &runs)) {
        p->stale = true;
        return;
    }
    if (!t->known || !t->blocked || runs != t->runs) {
        if (t->known && runs != t->runs)
            s->rec.threads[t->last.thread].ran = true;
        t->runs = runs;
        if (!pb_prof_read(p, t, &s->opts, &s->rec)) {
            p->stale = true;
            return;
        }
        t->known = true;
    }
    now = pb_clock_ns();
    t->last.at_ns = t->sampled_ns - s->started_ns;
    t->last.weight_ns = now - t->sampled_ns;
    t->sampled_ns = now;
    pb_recording_add(&s->rec, &t->last);
}

/*
 * Between two looks a process is left alone for so long that no thread is held for more than its
 * share of the time. For how long follows from many looks, so that it does not hang on what the
 * threads did at the last one: the next samples stand for the time between, and shares stay true.
 */
static void sample_all(struct pb_sampler *s, struct pb_prof_process *p)
{
    if (pb_clock_ns() < p->rest_ns) {
        s->rec.left_out++;
        return;
    }
    p->held_us = 0;
    for (size_t i = 0; i < p->nthreads; i++)
        sample(s, p, &p->threads[i]);
    p->looks += p->looks < HELD_LOOKS;
    p->held_mean_us += (p->held_us - p->held_mean_us) / p->looks;
    p->rest_ns = pb_clock_ns() + (uint64_t)(p->held_mean_us * 1000 *
                                            (100.0 / PB_SAMPLER_HELD_PERCENT - 1));
}

static void next_due(struct pb_sampler *s, uint64_t now)
{
    double period = 1e9 / s->opts.rate, share;

    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    share = (double)(s->random >> 11) / 9007199254740992.0; /* 2^53 */
    s->due_ns += (uint64_t)(period * (1 + JITTER * (share - 0.5)));
    if (s->due_ns < now) {
        uint64_t late = (uint64_t)((double)(now - s->due_ns) / period);

        s->rec.missed += late;
        s->due_ns += (uint64_t)((double)late * period);
    }
}

bool pb_sampler_tick(struct pb_sampler *s)
{
    uint64_t now = pb_clock_ns();
    bool living = false;

    if (s->opts.children && now - s->children_ns >= CHILDREN_NS) {
        s->children_ns = now;
        find_children(s);
    }
    for (size_t i = 0; i < s->n; i++) {
        struct pb_prof_process *p = s->processes[i];

        if (!p->ended)
            pb_prof_refresh(p, &s->opts, now, s->ticked_ns, &s->rec);
        if (p->ended)
            continue;
        living = true;
        sample_all(s, p);
    }
    s->rec.ticks += living;
    s->ticked_ns = now;
    next_due(s, pb_clock_ns());
    return living;
}

uint64_t pb_sampler_due(const struct pb_sampler *s)
{
    return s->due_ns;
}

void pb_sampler_sleep(struct pb_sampler *s)
{
    struct timespec until = pb_clock_timespec(s->due_ns);

    pb_stop_release_abandoned(&s->tracer);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

struct pb_recording *pb_sampler_recording(struct pb_sampler *s)
{
    s->rec.length_ns = pb_clock_ns() - s->started_ns;
    s->rec.cpu_ns = pb_clock_work_ns() - s->cpu_at_start;
    return &s->rec;
}

void pb_sampler_take(struct pb_sampler *s, struct pb_recording *ret)
{
    pb_sampler_recording(s);
    s->rec.processes = s->opened;
    *ret = s->rec;
    pb_recording_init(&s->rec);
}

void pb_sampler_restart(struct pb_sampler *s)
{
    uint64_t now = pb_clock_ns();

    pb_recording_clear(&s->rec);
    s->started_ns = now;
    s->cpu_at_start = pb_clock_work_ns();
    s->rec.started_ns = pb_clock_wall_ns();
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->processes[i]->nthreads; k++)
            if (s->processes[i]->threads[k].sampled_ns < now)
                s->processes[i]->threads[k].sampled_ns = now;
}

void pb_sampler_by_function(struct pb_sampler *s, bool by_function)
{
    s->opts.by_function = by_function;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->processes[i]->nthreads; k++)
            s->processes[i]->threads[k].known = false; /* also of what sleeps */
}
