#include "recording/fold.h"

#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

#define SECOND 1000000000ull
#define BUCKET_NS SECOND
#define BUCKET_MAX_NS (10 * SECOND)
#define RUN_MAX_NS (60 * SECOND)
#define FIRST_SLOTS 256

void pb_fold_init(struct pb_fold *f)
{
    memset(f, 0, sizeof *f);
    f->step = -1;
}

void pb_fold_finish(struct pb_fold *f)
{
    free(f->rows);
    free(f->index.slot);
    free(f->runs_ns);
    memset(f, 0, sizeof *f);
}

static bool same(const struct pb_fold_row *x, const struct pb_fold_row *y)
{
    return x->thread == y->thread && x->node == y->node && x->phase == y->phase &&
           x->module == y->module && x->state == y->state && x->on_cpu == y->on_cpu &&
           x->holds_gil == y->holds_gil && x->waits_gil == y->waits_gil && x->torn == y->torn;
}

static uint64_t hash(const struct pb_fold_row *r)
{
    uint64_t h = (uint64_t)r->thread << 32 | r->node;

    h = (h ^ ((uint64_t)r->phase << 32 | r->module)) * 0x9e3779b97f4a7c15u;
    h ^= (uint64_t)r->state << 8 | (uint64_t)r->on_cpu << 3 | (uint64_t)r->holds_gil << 2 |
         (uint64_t)r->waits_gil << 1 | r->torn;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* The slot of a row that says the same, or the free one where it belongs. */
static uint32_t *slot_of(const struct pb_fold *f, const struct pb_fold_row *r)
{
    size_t i = hash(r) & (f->index.cap - 1);

    while (f->index.slot[i] && !same(&f->rows[f->index.slot[i] - 1], r))
        i = (i + 1) & (f->index.cap - 1);
    return &f->index.slot[i];
}

/* The index of the rows that there are, with room for one more. */
static void rebuild(struct pb_fold *f)
{
    while (!f->index.cap || (f->nrows + 1) * 2 > f->index.cap)
        f->index.cap = f->index.cap ? f->index.cap * 2 : FIRST_SLOTS;
    f->index.slot = pb_alloc_resize(f->index.slot, f->index.cap * sizeof *f->index.slot);
    memset(f->index.slot, 0, f->index.cap * sizeof *f->index.slot);
    for (size_t i = 0; i < f->nrows; i++)
        *slot_of(f, &f->rows[i]) = (uint32_t)i + 1;
}

/* Steps of a second and more have rows of their own. */
static void note_step(struct pb_fold *f, int64_t step, uint64_t at_ns)
{
    if (step < 0 || step == f->step)
        return;
    f->step_ended |= f->step >= 0 && at_ns - f->step_ns >= BUCKET_NS;
    f->step = step;
    f->step_ns = at_ns;
}

void pb_fold_add(struct pb_fold *f, const struct pb_rec_sample *s, const struct pb_fold_mark *mark)
{
    struct pb_fold_row r = {.weight_ns = s->weight_ns, .thread = s->thread, .node = s->node,
                            .count = s->count ? s->count : 1, .phase = mark->phase,
                            .module = mark->module, .step = mark->step, .state = s->state,
                            .on_cpu = s->on_cpu, .holds_gil = s->holds_gil,
                            .waits_gil = s->waits_gil, .torn = s->torn};
    uint32_t *slot;

    if (!f->bucket_ns || s->at_ns < f->bucket_ns)
        f->bucket_ns = s->at_ns ? s->at_ns : 1;
    note_step(f, mark->step, s->at_ns);
    if (!f->index.cap || (f->nrows + 1) * 2 > f->index.cap)
        rebuild(f);
    slot = slot_of(f, &r);
    if (*slot) {
        f->rows[*slot - 1].weight_ns += r.weight_ns;
        f->rows[*slot - 1].count += r.count;
        return;
    }
    if (f->nrows == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 64;
        f->rows = pb_alloc_resize(f->rows, f->cap * sizeof *f->rows);
    }
    r.begin_ns = f->bucket_ns;
    f->rows[f->nrows++] = r;
    *slot = (uint32_t)f->nrows;
}

static bool is_due(const struct pb_fold *f, uint64_t now_ns)
{
    uint64_t age = now_ns > f->bucket_ns ? now_ns - f->bucket_ns : 0;

    if (f->step_ended || age >= BUCKET_MAX_NS)
        return true;
    return age >= BUCKET_NS && f->nrows * SECOND <= age * PB_FOLD_ROWS_A_SECOND;
}

static int by_thread(const void *x, const void *y)
{
    const struct pb_fold_row *a = x, *b = y;

    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return a->thread != b->thread ? (a->thread < b->thread ? -1 : 1)
                                  : (a->node > b->node) - (a->node < b->node);
}

/* By thread, how many rows it has; two stands for more. The caller frees it. */
static uint8_t *count_rows(struct pb_fold *f)
{
    size_t threads = f->nruns;
    uint8_t *seen;

    for (size_t i = 0; i < f->nrows; i++)
        threads = f->rows[i].thread >= threads ? f->rows[i].thread + 1u : threads;
    if (threads > f->nruns) {
        f->runs_ns = pb_alloc_resize(f->runs_ns, threads * sizeof *f->runs_ns);
        memset(f->runs_ns + f->nruns, 0, (threads - f->nruns) * sizeof *f->runs_ns);
        f->nruns = threads;
    }
    seen = pb_alloc_resize(NULL, threads);
    memset(seen, 0, threads);
    for (size_t i = 0; i < f->nrows; i++)
        seen[f->rows[i].thread] += seen[f->rows[i].thread] < 2;
    return seen;
}

/* Is it all that its thread does, and may go on for longer than it has? */
static bool goes_on(struct pb_fold *f, const struct pb_fold_row *r, bool alone, uint64_t now_ns)
{
    uint64_t *limit = &f->runs_ns[r->thread], age = now_ns - r->begin_ns;

    if (!alone) {
        *limit = 0;
        return false;
    }
    if (age < *limit)
        return true;
    *limit = age * 2 < RUN_MAX_NS ? age * 2 : RUN_MAX_NS;
    return false;
}

void pb_fold_flush(struct pb_fold *f, uint64_t now_ns, bool all, pb_fold_emit *emit, void *arg)
{
    uint8_t *seen;
    size_t kept = 0;

    if (!f->nrows || (!all && !is_due(f, now_ns)))
        return;
    seen = count_rows(f);
    qsort(f->rows, f->nrows, sizeof *f->rows, by_thread);
    for (size_t i = 0; i < f->nrows; i++) {
        const struct pb_fold_row *r = &f->rows[i];

        if (!all && goes_on(f, r, seen[r->thread] == 1, now_ns))
            f->rows[kept++] = *r;
        else
            emit(arg, r);
    }
    free(seen);
    f->nrows = kept;
    f->bucket_ns = 0;
    f->step_ended = false;
    rebuild(f);
}
