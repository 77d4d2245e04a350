#include "node/profile/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "node/profile/marks.h"

#define OLD_NS 3600000000000ull
#define NODES_MAX 100000
#define THREADS_MAX 4096
#define TEXT_MAX ((size_t)16 << 20) /* bytes of names */
/* Of a deeper stack the middle is left out. */
#define FRAMES_MAX 128
/* Rows of python.stack_frames that a process may make: at once, and a second. */
#define FRAMES_AT_ONCE 40000.0
#define FRAMES_A_SECOND 500.0

/* Ids of stacks that are written; open addressing, 0 is free. */
struct id_set {
    uint64_t *slot;
    size_t n, cap;
};

struct pb_watch {
    struct pb_profile_owner owner;
    struct pb_sampler *sampler;
    struct pb_recording *rec; /* the sampler's */
    struct pb_fold fold;
    struct pb_marks marks;
    struct id_set written;
    uint64_t period; /* period of the rings, which `written` is about */
    uint64_t opened_ns, now_ns; /* now_ns: of the tick that is written */
    double tokens;       /* rows of frames that may be written now */
    uint64_t tokens_ns;
    double carry_ns;     /* weight that rounding has left over */
    struct pb_watch_counts counts;
    struct pb_profile_rings *rings; /* during a flush */
};

/*
 * Numbers of stacks follow from names. Of another user's process they follow from a secret, too:
 * names chosen for it would give its stacks the numbers of somebody else's.
 */
static void hide_ids(struct pb_stacks *s)
{
    uint64_t secret;

    if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) == sizeof secret)
        s->nodes[0].id ^= secret;
}

int pb_watch_open(struct pb_watch **ret, const struct pb_store *store, double rate,
                  struct pb_err *err)
{
    struct pb_sampler_opts o = {.rate = rate, .no_pause = true, .max_frames = FRAMES_MAX};
    struct pb_watch *w;
    struct pb_sampler *s = pb_sampler_create(&o);

    if (pb_sampler_add(s, store->process.pid, NULL, err) < 0) {
        pb_sampler_destroy(s);
        return -1;
    }
    w = pb_alloc_resize(NULL, sizeof *w);
    memset(w, 0, sizeof *w);
    w->owner = (struct pb_profile_owner){store->process.pid, store->rank};
    pb_marks_init(&w->marks, store);
    w->sampler = s;
    w->rec = pb_sampler_recording(s);
    if (store->foreign)
        hide_ids(&w->rec->stacks);
    w->opened_ns = w->tokens_ns = pb_clock_ns();
    w->tokens = FRAMES_AT_ONCE;
    pb_fold_init(&w->fold);
    *ret = w;
    return 0;
}

static uint64_t *find_id(const struct id_set *s, uint64_t id)
{
    size_t i = id & (s->cap - 1);

    while (s->slot[i] && s->slot[i] != id)
        i = (i + 1) & (s->cap - 1);
    return &s->slot[i];
}

static void grow_ids(struct id_set *s)
{
    struct id_set old = *s;

    s->cap = old.cap ? old.cap * 2 : 256;
    s->slot = pb_alloc_resize(NULL, s->cap * sizeof *s->slot);
    memset(s->slot, 0, s->cap * sizeof *s->slot);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slot[i])
            *find_id(s, old.slot[i]) = old.slot[i];
    free(old.slot);
}

static bool has_id(const struct id_set *s, uint64_t id)
{
    return s->cap && *find_id(s, id) == id;
}

static void add_id(struct id_set *s, uint64_t id)
{
    if (s->n * 2 >= s->cap)
        grow_ids(s);
    *find_id(s, id) = id;
    s->n++;
}

static size_t depth_of(const struct pb_stacks *s, uint32_t node)
{
    size_t n = 0;

    for (; node; node = s->nodes[node].parent)
        n++;
    return n;
}

/* A program whose every stack is another would fill the disk: the rest of its time is one stack. */
static uint32_t affordable(struct pb_watch *w, uint32_t node)
{
    static const struct pb_prof_frame many = {"<too many different stacks>", "", 0, true};
    struct pb_stacks *s = &w->rec->stacks;
    double rows = (double)depth_of(s, node);

    w->tokens += (double)(w->now_ns - w->tokens_ns) / 1e9 * FRAMES_A_SECOND;
    w->tokens = w->tokens > FRAMES_AT_ONCE ? FRAMES_AT_ONCE : w->tokens;
    w->tokens_ns = w->now_ns;
    if (rows > w->tokens)
        return pb_stacks_child(s, 0, &many);
    w->tokens -= rows;
    return node;
}

/* The number of a stack whose frames are written by now. */
static uint64_t stack_id(struct pb_watch *w, uint32_t node, int64_t wall_ns)
{
    const struct pb_stacks *s = &w->rec->stacks;

    if (w->period == w->rings->period && has_id(&w->written, s->nodes[node].id))
        return s->nodes[node].id;
    node = affordable(w, node);
    for (int tries = 0; tries < 2 && w->rings->frames; tries++) {
        if (w->period != w->rings->period) {
            free(w->written.slot);
            w->written = (struct id_set){0};
            w->period = w->rings->period;
        }
        if (has_id(&w->written, s->nodes[node].id))
            break;
        if (pb_profile_write_stack(w->rings, &w->owner, s, node, wall_ns)) {
            add_id(&w->written, s->nodes[node].id);
            break;
        }
    }
    return s->nodes[node].id;
}

/* Few different numbers take little room: whole milliseconds, and what is left over goes along. */
static double rounded_ms(struct pb_watch *w, uint64_t weight_ns)
{
    double exact = (double)weight_ns + w->carry_ns;
    double unit = weight_ns >= 4000000 ? 1e6 : 1e5, ns;

    ns = exact > 0 ? floor(exact / unit + 0.5) * unit : 0;
    w->carry_ns = exact - ns;
    return ns / 1e6;
}

static void emit(void *arg, const struct pb_fold_row *f)
{
    struct pb_watch *w = arg;
    const struct pb_rec_thread *t = &w->rec->threads[f->thread];
    char module[PB_MARK_TEXT];
    int64_t wall = w->rec->started_ns + (int64_t)f->begin_ns;
    struct pb_profile_row row = {.wall_ns = wall / 1000000 * 1000000,
                                 .weight_ms = rounded_ms(w, f->weight_ns),
                                 .tid = t->tid,
                                 .thread = t->name,
                                 .phase = pb_marks_phase(f->phase),
                                 .module = pb_marks_module(&w->marks, f->module, module),
                                 .fold = f};

    if (!pb_profile_rings_ready(w->rings, wall))
        return;
    row.stack_id = stack_id(w, f->node, wall);
    if (w->rings->samples)
        pb_profile_write_row(w->rings, &w->owner, &row);
}

static void write_finished(struct pb_watch *w, struct pb_profile_rings *r, bool all)
{
    w->rings = r;
    w->now_ns = pb_clock_ns();
    pb_fold_flush(&w->fold, w->rec->length_ns, all, emit, w);
    w->rings = NULL;
}

bool pb_watch_tick(struct pb_watch *w, struct pb_profile_rings *r)
{
    bool living;

    pb_marks_read(&w->marks, pb_clock_ns());
    living = pb_sampler_tick(w->sampler);
    w->rec = pb_sampler_recording(w->sampler);
    for (size_t i = 0; i < w->rec->nentries; i++) {
        const struct pb_rec_sample *s = &w->rec->entries[i];
        struct pb_fold_mark mark = pb_marks_of(&w->marks, w->rec->threads[s->thread].tid);

        pb_fold_add(&w->fold, s, &mark);
    }
    w->counts.samples += w->rec->samples;
    w->counts.torn += w->rec->torn;
    w->counts.ticks += w->rec->ticks;
    write_finished(w, r, !living);
    pb_recording_clear(w->rec);
    return living;
}

void pb_watch_close(struct pb_watch *w, struct pb_profile_rings *r)
{
    if (!w)
        return;
    w->rec = pb_sampler_recording(w->sampler);
    write_finished(w, r, true);
    pb_fold_finish(&w->fold);
    pb_marks_finish(&w->marks);
    free(w->written.slot);
    pb_sampler_destroy(w->sampler);
    free(w);
}

uint64_t pb_watch_due(const struct pb_watch *w)
{
    return pb_sampler_due(w->sampler);
}

bool pb_watch_is_old(const struct pb_watch *w)
{
    return pb_clock_ns() - w->opened_ns > OLD_NS || w->rec->stacks.nnodes > NODES_MAX ||
           w->rec->stacks.arena.bytes > TEXT_MAX || w->rec->nthreads > THREADS_MAX;
}

struct pb_watch_counts pb_watch_counts(const struct pb_watch *w)
{
    return w->counts;
}
