#include "agent/collectors/alloc/chance.h"
#include "agent/collectors/alloc/hooks.h"
#include "agent/collectors/alloc/live.h"
#include "agent/collectors/alloc/malloc.h"
#include "agent/arch/symver.h"
#include "agent/collectors/collect.h"
#include "base/clock.h"
#include "schema/python_alloc.h"
#include "schema/python_alloc_frames.h"
#include "schema/table.h"

#include <string.h>

static void tick(struct pb_self *self, uint64_t now);
static int enter(struct pb_self *self, struct pb_err *err);
static void poll(struct pb_self *self, uint64_t now);
static void leave(struct pb_self *self);
static void configure(struct pb_self *self);
static void forked(struct pb_self *self);

struct alloc {
    struct pb_live live;
    struct pb_walker walker;
    bool proven;         /* the walker's layout is right; GIL */
    _Atomic bool active; /* hooks are in and samples are taken */
    bool with_malloc;    /* the setting memory.malloc as it was last seen */
    int64_t bytes;       /* memory.sites_bytes as it was last read; guarded by live.lock */
    int64_t since_ns;    /* when it began, since 1970 */
};

const struct pb_collector pb_collector_alloc = {
    .name = "alloc",
    .doc = PB_PYTHON_ALLOC_DOC,
    .on = PB_SET_MEMORY_SITES,
    .every_ms = 2000,
    .tick = tick,
    .enter = enter,
    .poll = poll,
    .leave = leave,
    .configure = configure,
    .forked = forked,
    .state_size = sizeof(struct alloc),
};

static const struct pb_column_spec columns[] = {PB_PYTHON_ALLOC(PB_TABLE_COLUMN)};
static const struct pb_column_spec frame_columns[] = {PB_PYTHON_ALLOC_FRAMES(PB_TABLE_COLUMN)};

enum { PB_PYTHON_ALLOC(PB_TABLE_NUMBER) NCOLUMNS };
#define X(name, type, unit, doc) F_##name,
enum { PB_PYTHON_ALLOC_FRAMES(X) NFRAME };
#undef X

static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_ALLOC_NAME, PB_PYTHON_ALLOC_DOC),
    .rows = 16384,
    .dict_bytes = 256 << 10,
};
static const struct pb_ring_spec frames_table = {
    .name = PB_PYTHON_ALLOC_FRAMES_NAME,
    .doc = PB_PYTHON_ALLOC_FRAMES_DOC,
    .columns = frame_columns,
    .ncolumns = NFRAME,
    .rows = 32768,
    .dict_bytes = 512 << 10,
};

#define S 1000000000ull
/* A site whose numbers hardly move has a row this often, one whose numbers stand still that. */
#define MOVING_NS (30 * S)
#define STILL_NS (600 * S)
#define FRAMES_NS (3600 * S)
#define MOVED 0.05 /* part of its live bytes that is worth a row at once */

static struct alloc *state_of(struct pb_self *self)
{
    return pb_collect_state(self, PB_COLLECTOR_ID_alloc);
}

static bool is_due(const struct pb_live *l, const struct pb_live_site *s, uint64_t now)
{
    double moved = s->live_bytes - s->written_bytes;

    if (!s->alloc_bytes)
        return false;
    if (!s->written_ns || now - s->written_ns >= STILL_NS)
        return true;
    if (moved < 0)
        moved = -moved;
    /* One that has come to rest is told at once: its row may stand for long. */
    return s->stale && (!s->moving || now - s->written_ns >= MOVING_NS ||
                        (moved >= l->every && moved >= MOVED * s->written_bytes));
}

static uint32_t name_in(struct pb_ring *ring, const char *text)
{
    return *text ? pb_ring_name(ring, text, strlen(text)) : PB_NULL_NAME;
}

static void write_frames(const struct pb_live *l, const struct pb_live_site *s,
                         struct pb_ring *ring, int64_t wall)
{
    union pb_cell row[NFRAME];

    row[F_timestamp].i = wall;
    row[F_stack_id].i = (int64_t)s->id;
    for (uint32_t i = 0; i < s->nframes; i++) {
        const struct pb_live_frame *f = &l->frames[s->first + i];

        row[F_depth].i = i;
        row[F_func].name = name_in(ring, l->text + f->func);
        row[F_file].name = name_in(ring, l->text + f->file);
        row[F_lineno].i = f->line > 0 ? f->line : PB_NULL_INT;
        pb_ring_append(ring, row);
    }
}

static void write_site(const struct alloc *a, const struct pb_live_site *s, bool other,
                       struct pb_ring *ring, int64_t wall)
{
    const struct pb_live *l = &a->live;
    const struct pb_live_frame none = {0}, *f = s->nframes ? &l->frames[s->first] : &none;
    const char *func = other ? "(other stacks)" : s->nframes ? l->text + f->func : "(no Python)";
    union pb_cell row[NCOLUMNS];

    row[AT_timestamp].i = wall;
    row[AT_stack_id].i = (int64_t)s->id;
    row[AT_func].name = name_in(ring, func);
    row[AT_file].name = name_in(ring, l->text + f->file);
    row[AT_lineno].i = f->line > 0 ? f->line : PB_NULL_INT;
    row[AT_live_bytes].d = s->live_bytes;
    row[AT_live_error].d = pb_chance_sqrt(s->live_variance);
    row[AT_live_blocks].d = s->live_blocks;
    row[AT_samples].i = (int64_t)s->samples;
    row[AT_alloc_bytes].d = s->alloc_bytes;
    row[AT_alloc_blocks].d = s->alloc_blocks;
    row[AT_since].i = a->since_ns;
    row[AT_every_bytes].d = l->every;
    pb_ring_append(ring, row);
}

/* Copies a site that is due, and marks it as written. */
static bool claim(struct pb_live *l, uint32_t i, uint64_t now, struct pb_live_site *ret)
{
    struct pb_live_site *s = &l->sites[i];
    bool due;

    pthread_mutex_lock(&l->lock);
    due = is_due(l, s, now);
    s->moving = false;
    if (due) {
        *ret = *s;
        s->stale = false;
        s->written_ns = now;
        s->written_bytes = s->live_bytes;
        if (!s->frames_ns || now - s->frames_ns >= FRAMES_NS)
            s->frames_ns = now;
    }
    pthread_mutex_unlock(&l->lock);
    return due;
}

static void tick(struct pb_self *self, uint64_t now)
{
    struct alloc *a = state_of(self);
    struct pb_ring *ring, *frames;
    int64_t wall = pb_clock_wall_ns();
    struct pb_live_site s;

    if (!a->active)
        return;
    ring = pb_collect_ring(self, &table);
    frames = pb_collect_ring(self, &frames_table);
    for (uint32_t i = 0; ring && frames && i < PB_LIVE_SITES; i++) {
        if (!claim(&a->live, i, now, &s))
            continue;
        if (!s.frames_ns || now - s.frames_ns >= FRAMES_NS)
            write_frames(&a->live, &s, frames, wall);
        write_site(a, &s, i == 0, ring, wall);
    }
}

static void begin(struct pb_self *self, struct alloc *a)
{
    pthread_mutex_lock(&a->live.lock);
    pb_live_clear(&a->live);
    a->bytes = pb_self_setting(self, PB_SET_MEMORY_SITES_BYTES);
    a->live.every = (double)a->bytes;
    pthread_mutex_unlock(&a->live.lock);
    a->since_ns = pb_clock_wall_ns();
    pb_hooks_switch(true);
    pb_hooks_restart();
    pb_malloc_switch(a->with_malloc);
    pb_malloc_restart();
    a->active = true;
}

/* memory.malloc is turned on and off while the rest goes on. */
static void follow_malloc(struct pb_self *self, struct alloc *a)
{
    bool wanted = pb_self_setting(self, PB_SET_MEMORY_MALLOC);
    struct pb_err err = {0};

    if (wanted == a->with_malloc) {
        pb_malloc_follow();
        return;
    }
    a->with_malloc = wanted;
    if (wanted && pb_malloc_install(&self->py, &a->live, &a->walker, &err) < 0) {
        pb_collect_set_state(self, PB_COLLECTOR_ID_alloc, "on", err.msg);
    } else if (wanted) {
        pb_malloc_switch(true);
        pb_malloc_restart();
    } else {
        pb_malloc_remove();
        begin(self, a); /* nobody will tell when blocks of malloc are freed */
    }
}

static int enter(struct pb_self *self, struct pb_err *err)
{
    struct alloc *a = state_of(self);

    if (!pb_live_prepare(&a->live))
        return pb_err_set(err, PB_FAIL, "no memory");
    if (!a->proven) {
        if (pb_walk_init(&a->walker, &self->py, err) < 0 || pb_walk_check(&a->walker, err) < 0)
            return -1;
        a->proven = true;
    }
    if (pb_hooks_install(&self->py, &a->live, &a->walker, err) < 0)
        return -1;
    begin(self, a);
    follow_malloc(self, a);
    return 0;
}

/* A tool that was there before us puts its own things back when it ends, over our hooks. */
static void poll(struct pb_self *self, uint64_t now)
{
    struct alloc *a = state_of(self);
    struct pb_err err = {0};

    (void)now;
    if (a->active)
        follow_malloc(self, a);
    if (!a->active || pb_hooks_are_called(&self->py))
        return;
    pb_hooks_switch(false);
    if (pb_hooks_install(&self->py, &a->live, &a->walker, &err) == 0) {
        begin(self, a);
    } else {
        a->active = false;
        pb_collect_set_state(self, PB_COLLECTOR_ID_alloc, "off", err.msg);
    }
}

static void leave(struct pb_self *self)
{
    struct alloc *a = state_of(self);

    a->active = a->with_malloc = false;
    pb_hooks_remove(&self->py);
    pb_malloc_remove();
}

static void configure(struct pb_self *self)
{
    struct alloc *a = state_of(self);
    int64_t bytes = pb_self_setting(self, PB_SET_MEMORY_SITES_BYTES);

    if (!a->active)
        return;
    pthread_mutex_lock(&a->live.lock);
    if (bytes != a->bytes)
        a->live.every = (double)bytes;
    a->bytes = bytes;
    pthread_mutex_unlock(&a->live.lock);
    pb_hooks_restart();
    pb_malloc_restart();
}

/* The child has the parent's hooks, and nobody who reads what they see. */
static void forked(struct pb_self *self)
{
    struct alloc *a = state_of(self);

    pthread_mutex_init(&a->live.lock, NULL);
    a->active = a->with_malloc = false;
    pb_hooks_switch(false);
    pb_malloc_switch(false);
    pb_live_clear(&a->live);
}
