#include "recording/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/text/alloc.h"

void pb_recording_init(struct pb_recording *r)
{
    memset(r, 0, sizeof *r);
    pb_stacks_init(&r->stacks);
}

void pb_recording_finish(struct pb_recording *r)
{
    pb_stacks_finish(&r->stacks);
    free(r->threads);
    free(r->entries);
    free(r->before);
    memset(r, 0, sizeof *r);
}

void pb_recording_clear(struct pb_recording *r)
{
    for (size_t i = 0; i < r->nthreads; i++) {
        r->threads[i].latest = 0;
        r->threads[i].ran = false;
    }
    r->nentries = 0;
    r->ticks = r->missed = r->samples = r->torn = r->reads = r->stops = 0;
    r->partial = r->left_out = 0;
    r->pause_us = 0;
    r->cpu_ns = r->length_ns = 0;
    r->has_idle = r->full = false;
}

uint32_t pb_recording_thread(struct pb_recording *r, pid_t pid, pid_t tid, const char *name)
{
    if (r->nthreads == r->threads_cap) {
        r->threads_cap = r->threads_cap ? r->threads_cap * 2 : 64;
        r->threads = pb_alloc_resize(r->threads, r->threads_cap * sizeof *r->threads);
    }
    r->threads[r->nthreads] = (struct pb_rec_thread){
        .pid = pid, .tid = tid, .is_main = pid == tid,
        .name = pb_arena_strdup(&r->stacks.arena, name ? name : "")};
    return (uint32_t)r->nthreads++;
}

static bool same(const struct pb_rec_sample *x, const struct pb_rec_sample *y)
{
    return x->node == y->node && x->state == y->state && x->on_cpu == y->on_cpu &&
           x->holds_gil == y->holds_gil && x->waits_gil == y->waits_gil && x->torn == y->torn;
}

void pb_recording_add(struct pb_recording *r, const struct pb_rec_sample *sample)
{
    struct pb_rec_thread *t = &r->threads[sample->thread];
    struct pb_rec_sample *last = t->latest ? &r->entries[t->latest - 1] : NULL;
    uint32_t count = sample->count ? sample->count : 1;

    r->samples += count;
    r->torn += sample->torn ? count : 0;
    t->ran |= sample->on_cpu;
    if (last && same(last, sample)) {
        last->weight_ns += sample->weight_ns;
        last->count += count;
        return;
    }
    if (r->nentries >= PB_RECORDING_MAX) {
        r->full = true;
        return;
    }
    if (r->nentries == r->entries_cap) {
        r->entries_cap = r->entries_cap ? r->entries_cap * 2 : 1024;
        r->entries = pb_alloc_resize(r->entries, r->entries_cap * sizeof *r->entries);
    }
    r->entries[r->nentries] = *sample;
    r->entries[r->nentries].count = count;
    t->latest = ++r->nentries;
}

static bool thread_wanted(const struct pb_rec_thread *t, const struct pb_rec_filter *f)
{
    char number[16];

    if (!f->threads)
        return true;
    snprintf(number, sizeof number, "%d", (int)t->tid);
    return regexec(f->threads, t->name, 0, NULL, 0) == 0 ||
           regexec(f->threads, number, 0, NULL, 0) == 0;
}

static bool is_resting(const struct pb_rec_sample *e, const struct pb_rec_thread *t)
{
    return !t->is_main && (e->state == PB_IDLE || !t->ran);
}

/* Of `count` entries; `out` may be where they are. */
static size_t copy_wanted(const struct pb_recording *r, const struct pb_rec_sample *from,
                          size_t count, const struct pb_rec_filter *f, const bool *wanted,
                          bool idle, struct pb_rec_sample *out)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        const struct pb_rec_sample *e = &from[i];

        if (!wanted[e->thread] || (f->gil && !e->holds_gil) || (f->cpu && !e->on_cpu))
            continue;
        if (idle || f->gil || f->cpu || !is_resting(e, &r->threads[e->thread]))
            out[n++] = *e;
    }
    return n;
}

void pb_recording_filter(struct pb_recording *r, const struct pb_rec_filter *f)
{
    struct pb_rec_sample *out = pb_alloc_resize(NULL, (r->nentries + 1) * sizeof *out);
    bool *wanted = pb_alloc_resize(NULL, r->nthreads + 1);
    size_t n;

    for (size_t i = 0; i < r->nthreads; i++) {
        wanted[i] = thread_wanted(&r->threads[i], f);
        r->threads[i].latest = 0;
    }
    n = copy_wanted(r, r->entries, r->nentries, f, wanted, f->idle, out);
    if (!n && !f->idle && !f->gil && !f->cpu) {
        n = copy_wanted(r, r->entries, r->nentries, f, wanted, true, out);
        r->has_idle = n > 0;
    }
    if (r->nbefore)
        r->nbefore = copy_wanted(r, r->before, r->nbefore, f, wanted, f->idle || r->has_idle,
                                 r->before);
    free(wanted);
    free(r->entries);
    r->entries = out;
    r->entries_cap = r->nentries + 1;
    r->nentries = n;
}

static uint64_t scaled(const struct pb_recording *r, uint64_t ns)
{
    return (uint64_t)((double)ns * r->before_scale + 0.5);
}

static void add_up(const struct pb_stacks *s, const uint64_t *self, uint64_t *total)
{
    for (size_t i = s->nnodes; i-- > 0;) {
        total[i] += self[i];
        if (i)
            total[s->nodes[i].parent] += total[i];
    }
}

void pb_recording_sums(const struct pb_recording *r, uint64_t *self, uint64_t *total)
{
    for (size_t i = 0; i < r->nentries; i++)
        self[r->entries[i].node] += r->entries[i].weight_ns;
    add_up(&r->stacks, self, total);
}

void pb_recording_sums_before(const struct pb_recording *r, uint64_t *self, uint64_t *total)
{
    for (size_t i = 0; i < r->nbefore; i++)
        self[r->before[i].node] += scaled(r, r->before[i].weight_ns);
    add_up(&r->stacks, self, total);
}

static int by_location(const void *x, const void *y)
{
    const struct pb_rec_leaf *a = x, *b = y;
    uint64_t ka = (uint64_t)a->node << 32 | a->thread, kb = (uint64_t)b->node << 32 | b->thread;
    int fa = a->state * 8 + a->on_cpu * 4 + a->holds_gil * 2 + a->waits_gil;
    int fb = b->state * 8 + b->on_cpu * 4 + b->holds_gil * 2 + b->waits_gil;

    return ka != kb ? (ka < kb ? -1 : 1) : fa - fb;
}

size_t pb_recording_leaves(const struct pb_recording *r, struct pb_arena *a,
                           struct pb_rec_leaf **ret)
{
    struct pb_rec_leaf *v = PB_NEW_N(a, struct pb_rec_leaf, r->nentries + 1);
    size_t count = r->nentries, n = 0;

    for (size_t i = 0; i < count; i++) {
        const struct pb_rec_sample *e = &r->entries[i];

        v[i] = (struct pb_rec_leaf){e->node, e->thread, e->state, e->on_cpu, e->holds_gil,
                                    e->waits_gil, e->weight_ns, e->count};
    }
    qsort(v, count, sizeof *v, by_location);
    for (size_t i = 0; i < count; i++) {
        if (n && by_location(&v[n - 1], &v[i]) == 0) {
            v[n - 1].weight_ns += v[i].weight_ns;
            v[n - 1].count += v[i].count;
        } else {
            v[n++] = v[i];
        }
    }
    *ret = v;
    return n;
}
