/*
 * python.folded_stacks - where the main threads are, equal stacks as one row with their ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cluster/ranges.h"
#include "node/tables/read/common.h"
#include "display/stack.h"

static pb_live_fill fill;

#define COLUMNS(X)                                                                                 \
    X(stack_hash, TEXT, "", "equal for equal stacks, on every machine")                            \
    X(processes, INT, "", "how many processes of this machine have the stack")                     \
    X(ranks, TEXT, "", "ranks of these processes: 0-3,5; empty when they have none")               \
    X(func, NAME, "", "innermost function")                                                        \
    X(file, NAME, "", "source file of func")                                                       \
    X(lineno, INT, "", "line that is being executed")                                              \
    X(stack, TEXT, "", "all frames, innermost first: a line each, function and file:line")         \
    X(reason, TEXT, "", "why the stacks of these processes could not be read")                     \
    PB_LIVE_COMMON(X)

PB_TABLE_COLUMNS(COLUMNS);

const struct pb_live pb_live_python_folded_stacks = {
    PB_TABLE_SPEC("python.folded_stacks",
                  "stacks of main threads, now: equal ones as one row, with their ranks"),
    .fill = fill,
};

/* Processes with one stack, or one reason. */
struct fold {
    uint64_t hash;
    bool ranked;
    size_t processes;
    struct pb_ranges ranks;
    const struct pb_live_process *sample; /* the process with the lowest rank */
    const struct pb_thread *thread;       /* NULL: not read */
    const char *stack, *reason;
};

static const char *frame_line(const struct pb_frame *f, struct pb_arena *a)
{
    const char *file = f->file ? f->file : f->module ? f->module : "";

    return pb_arena_printf(a, "%s %s:%d", f->native ? pb_stack_native_name(f, a) : f->func, file,
                           (int)(f->lineno > 0 ? f->lineno : 0));
}

static const char *stack_text(const struct pb_thread *t, struct pb_arena *a)
{
    struct pb_buf b = PB_BUF_INIT;
    const char *copy;

    for (size_t i = 0; t && i < t->nframes; i++)
        pb_buf_printf(&b, "%s%s", i ? "\n" : "", frame_line(&t->frames[i], a));
    copy = pb_arena_strdup(a, b.data ? b.data : "");
    pb_buf_finish(&b);
    return copy;
}

static const struct pb_thread *main_thread(const struct pb_stack_read *r)
{
    return r && r->err.code == PB_OK && r->snapshot.nthreads ? &r->snapshot.threads[0] : NULL;
}

/* Finds the fold of a process, or begins it. */
static void add(struct fold *v, size_t *n, const struct pb_live_process *p,
                const struct pb_stack_read *r, struct pb_arena *a)
{
    const struct pb_thread *t = main_thread(r);
    const char *stack = stack_text(t, a);
    const char *reason = t ? "" : r ? r->err.msg : "not read in time";
    uint64_t hash = pb_hash_text(PB_HASH_SEED, t ? stack : "");
    size_t i = 0;

    while (i < *n && !(v[i].hash == hash && v[i].ranked == (p->rank >= 0) &&
                       strcmp(v[i].stack, stack) == 0 && (t != NULL) == (v[i].thread != NULL)))
        i++;
    if (i == *n)
        v[(*n)++] = (struct fold){.hash = hash, .ranked = p->rank >= 0, .sample = p, .thread = t,
                                  .stack = stack, .reason = pb_arena_strdup(a, reason)};
    v[i].processes++;
    if (p->rank >= 0 && p->rank <= PB_RANGES_VALUE_MAX)
        pb_ranges_add(&v[i].ranks, (uint32_t)p->rank, (uint32_t)p->rank);
    if (p->rank < v[i].sample->rank)
        v[i].sample = p;
}

static void put_row(struct pb_node *node, struct pb_rows *rows, struct fold *f)
{
    struct pb_row_cell *row = pb_rows_add(rows);
    struct pb_buf ranks = PB_BUF_INIT;
    char hash[24];

    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)f->hash);
    pb_ranges_text(&f->ranks, &ranks);
    pb_rows_text(rows, row, AT_stack_hash, f->thread ? hash : NULL);
    pb_rows_int(row, AT_processes, (int64_t)f->processes);
    pb_rows_text(rows, row, AT_ranks, ranks.data ? ranks.data : "");
    if (f->thread && f->thread->nframes) {
        const struct pb_frame *top = &f->thread->frames[0];

        pb_rows_text(rows, row, AT_func,
                     top->native ? pb_stack_native_name(top, &rows->arena) : top->func);
        pb_rows_text(rows, row, AT_file, top->file ? top->file : top->module);
        if (top->lineno > 0)
            pb_rows_int(row, AT_lineno, top->lineno);
    }
    pb_rows_text(rows, row, AT_stack, f->thread ? f->stack : NULL);
    pb_rows_text(rows, row, AT_reason, f->thread ? NULL : f->reason);
    pb_live_common(rows, row, node->host, f->sample->pid, f->sample->rank);
    pb_buf_finish(&ranks);
    pb_ranges_finish(&f->ranks);
}

static int fill(struct pb_node *n, const struct pb_scope *scope, const bool *wanted,
                struct pb_rows *rows, struct pb_err *err)
{
    struct pb_snapshot_opts o = {.native = pb_node_setting(n, PB_SET_STACKS_NATIVE)};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_live_process *v = NULL;
    size_t count = pb_live_processes(n, scope, true, &a, &v), folds = 0;
    struct pb_stack_batch *batch = pb_live_stacks(n, v, count, &o);
    struct fold *all = PB_NEW_N(&a, struct fold, count + 1);

    (void)wanted;
    (void)err;
    for (size_t i = 0; i < count; i++)
        add(all, &folds, &v[i], pb_stack_batch_get(batch, i), &a);
    for (size_t i = 0; i < folds; i++)
        put_row(n, rows, &all[i]);
    pb_stack_batch_drop(batch);
    pb_arena_finish(&a);
    return 0;
}
