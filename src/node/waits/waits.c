#include "node/waits/waits.h"

#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "host/process/proc.h"
#include "host/process/rank.h"
#include "node/discover/pythons.h"
#include "node/waits/internal.h"

/* Frames of a stack that are read: enough to find the program's own code. */
#define FRAMES 120
#define STACKS_TIMEOUT_MS 5000
#define PROCESSES_MAX 512
#define ROUNDS 3 /* processes, those they wait for, those these wait for */

static bool has(const struct pb_wait_set *s, pid_t pid)
{
    for (size_t i = 0; i < s->nprocesses; i++)
        if (s->processes[i].pid == pid)
            return true;
    return false;
}

static bool is_python(const struct pb_python *v, size_t n, pid_t pid, uint64_t *ret_start)
{
    for (size_t i = 0; i < n; i++)
        if (v[i].pid == pid) {
            *ret_start = v[i].start;
            return true;
        }
    return false;
}

static void add_process(struct pb_wait_set *s, pid_t pid, uint64_t start)
{
    long rank = -1, world;

    if (s->nprocesses == PROCESSES_MAX || has(s, pid))
        return;
    pb_rank_read(pid, &s->arena, &rank, &world);
    s->processes[s->nprocesses++] = (struct pb_wait_process){pid, start, rank};
}

/* Python processes that those in the set have started. */
static void add_descendants(struct pb_wait_set *s, const struct pb_python *v, size_t n)
{
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            struct pb_proc_stat st;
            struct pb_err ignored = {0};

            if (has(s, v[i].pid) || pb_proc_stat(&st, v[i].pid, 0, &ignored) < 0 ||
                !has(s, st.ppid))
                continue;
            add_process(s, v[i].pid, v[i].start);
            more = has(s, v[i].pid);
        }
    }
}

static void add_peers(struct pb_wait_set *s, const struct pb_python *v, size_t n)
{
    uint64_t start;

    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->v[i].npeers; k++)
            if (is_python(v, n, s->v[i].peers[k].pid, &start))
                add_process(s, s->v[i].peers[k].pid, start);
}

/* Threads of the interpreter, and any that computes or waits between ranks. */
static void add_threads(struct pb_wait_look *l, struct pb_wait_set *s,
                        const struct pb_wait_process *p, const struct pb_snapshot *snapshot)
{
    s->v = pb_arena_grow(&s->arena, s->v, s->n * sizeof *s->v,
                         (s->n + snapshot->nthreads) * sizeof *s->v);
    for (size_t i = 0; i < snapshot->nthreads; i++) {
        struct pb_wait *w = &s->v[s->n];

        if (!snapshot->threads[i].python)
            continue;
        memset(w, 0, sizeof *w);
        w->process = p;
        w->snapshot = snapshot;
        w->thread = &snapshot->threads[i];
        pb_wait_classify(l, w);
        s->n++;
    }
}

static void read_from(const struct pb_wait_question *q, struct pb_wait_look *l,
                      struct pb_wait_set *s, size_t first)
{
    struct pb_snapshot_opts o = {.all = true, .native = true, .locks = true, .max_frames = FRAMES};
    size_t count = s->nprocesses - first;
    struct pb_stack_read *wanted = PB_NEW_N(&s->arena, struct pb_stack_read, count + 1);
    struct pb_stack_batch *b;

    for (size_t i = 0; i < count; i++) {
        wanted[i].pid = s->processes[first + i].pid;
        wanted[i].start = s->processes[first + i].start;
    }
    b = pb_stack_cache_read(q->stacks, wanted, count, &o, STACKS_TIMEOUT_MS);
    s->batches[s->nbatches++] = b;
    for (size_t i = 0; i < count; i++) {
        const struct pb_stack_read *r = pb_stack_batch_get(b, i);

        if (r && r->err.code == PB_OK)
            add_threads(l, s, &s->processes[first + i], &r->snapshot);
    }
}

void pb_waits_read(const struct pb_wait_question *q, struct pb_wait_set *ret)
{
    struct pb_wait_look l = {.ends = NULL};
    struct pb_python *pythons = NULL;
    size_t npythons = 0, first = 0;

    memset(ret, 0, sizeof *ret);
    l.arena = &ret->arena;
    ret->processes = PB_NEW_N(&ret->arena, struct pb_wait_process, PROCESSES_MAX);
    for (size_t i = 0; i < q->n && i < PROCESSES_MAX; i++)
        ret->processes[ret->nprocesses++] = q->processes[i];
    if (q->pythons) {
        npythons = pb_pythons_list(q->pythons, &ret->arena, &pythons);
        add_descendants(ret, pythons, npythons);
    }
    for (int round = 0; round < ROUNDS && first < ret->nprocesses; round++) {
        size_t end = ret->nprocesses;

        read_from(q, &l, ret, first);
        first = end;
        add_peers(ret, pythons, npythons);
    }
    pb_looks_compare(q->looks, q->stacks, ret->v, ret->n);
    pb_wait_graph(ret->v, ret->n);
    for (size_t i = 0; i < ret->n; i++)
        pb_wait_find_idle_peer(&ret->v[i]);
}

void pb_waits_finish(struct pb_wait_set *s)
{
    for (size_t i = 0; i < s->nbatches; i++)
        pb_stack_batch_drop(s->batches[i]);
    pb_arena_finish(&s->arena);
}
