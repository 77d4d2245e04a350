#include "node/profile/rings.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "schema/python_samples.h"
#include "schema/python_stack_frames.h"
#include "schema/table.h"

#define DAY_NS INT64_C(86400000000000)
#define RETRY_NS 60000000000ull

static const struct pb_column_spec sample_columns[] = {PB_PYTHON_SAMPLES(PB_TABLE_COLUMN)};
static const struct pb_column_spec frame_columns[] = {PB_PYTHON_STACK_FRAMES(PB_TABLE_COLUMN)};

#define X(name, type, unit, doc) S_##name,
enum { PB_PYTHON_SAMPLES(X) NSAMPLE };
#undef X
#define X(name, type, unit, doc) F_##name,
enum { PB_PYTHON_STACK_FRAMES(X) NFRAME };
#undef X

static const struct pb_ring_spec samples_spec = {
    .name = PB_PYTHON_SAMPLES_NAME,
    .doc = PB_PYTHON_SAMPLES_DOC,
    .columns = sample_columns,
    .ncolumns = NSAMPLE,
    .rows = 32768,
    .dict_bytes = 256 << 10,
    .flags = PB_RING_SHARED,
};
static const struct pb_ring_spec frames_spec = {
    .name = PB_PYTHON_STACK_FRAMES_NAME,
    .doc = PB_PYTHON_STACK_FRAMES_DOC,
    .columns = frame_columns,
    .ncolumns = NFRAME,
    .rows = 32768,
    .dict_bytes = 1 << 20,
    .flags = PB_RING_SHARED,
};

void pb_profile_rings_init(struct pb_profile_rings *r, int dir)
{
    *r = (struct pb_profile_rings){.dir = dir, .period = 1, .day = -1};
}

void pb_profile_rings_finish(struct pb_profile_rings *r)
{
    pb_ring_close(r->samples);
    pb_ring_close(r->frames);
    r->samples = r->frames = NULL;
}

static bool create(struct pb_profile_rings *r)
{
    struct pb_err err = {0};
    uint64_t now = pb_clock_ns();

    if (r->samples && r->frames)
        return true;
    if (now < r->retry_ns)
        return false;
    if ((r->samples || pb_ring_create(&r->samples, r->dir, &samples_spec, NULL, &err) == 0) &&
        pb_ring_create(&r->frames, r->dir, &frames_spec, NULL, &err) == 0) {
        r->reason[0] = '\0';
        r->period++;
        return true;
    }
    r->retry_ns = now + RETRY_NS;
    snprintf(r->reason, sizeof r->reason, "%.150s", err.msg);
    return false;
}

bool pb_profile_rings_ready(struct pb_profile_rings *r, int64_t wall_ns)
{
    int32_t day = (int32_t)(wall_ns / DAY_NS);

    if (day != r->day) {
        r->day = day;
        r->period++;
    }
    return create(r);
}

/* The old ring is closed, so that its rows go to history at once. */
static void renew(struct pb_ring **ring, struct pb_profile_rings *r)
{
    pb_ring_close(*ring);
    *ring = NULL;
    create(r);
}

static uint32_t name_in(struct pb_ring *ring, const char *text)
{
    return text ? pb_ring_name(ring, text, strlen(text)) : PB_NULL_NAME;
}

static const char *type_of(const struct pb_prof_frame *f)
{
    if (!f->file[0] && !f->lineno)
        return f->func[0] == '<' || (unsigned char)f->func[0] >= 0x80 ? "other" : "native";
    return f->native ? "native" : "python";
}

bool pb_profile_write_stack(struct pb_profile_rings *r, const struct pb_profile_owner *o,
                            const struct pb_stacks *s, uint32_t node, int64_t wall_ns)
{
    union pb_cell row[NFRAME];
    int64_t depth = 0;

    row[F_timestamp].i = wall_ns;
    row[F_stack_id].i = (int64_t)s->nodes[node].id;
    row[F_pid].i = o->pid;
    row[F_rank].i = o->rank < 0 ? PB_NULL_INT : o->rank;
    for (uint32_t n = node; n; n = s->nodes[n].parent, depth++) {
        const struct pb_prof_frame *f = &s->frames[s->nodes[n].frame];
        const char *file = f->file[0] ? f->file : NULL;

        row[F_depth].i = depth;
        row[F_func].name = name_in(r->frames, f->func);
        row[F_file].name = name_in(r->frames, file);
        row[F_lineno].i = f->lineno > 0 ? f->lineno : PB_NULL_INT;
        row[F_frame_type].name = name_in(r->frames, type_of(f));
        if (!row[F_func].name || (file && !row[F_file].name)) {
            renew(&r->frames, r); /* its dictionary is full */
            return false;
        }
        pb_ring_append(r->frames, row);
    }
    return true;
}

void pb_profile_write_row(struct pb_profile_rings *r, const struct pb_profile_owner *o,
                          const struct pb_profile_row *p)
{
    const struct pb_fold_row *f = p->fold;
    union pb_cell row[NSAMPLE];

    row[S_timestamp].i = p->wall_ns;
    row[S_tid].i = p->tid;
    row[S_thread].name = name_in(r->samples, p->thread);
    if (p->thread[0] && !row[S_thread].name) { /* its dictionary is full */
        renew(&r->samples, r);
        if (!r->samples)
            return;
        row[S_thread].name = name_in(r->samples, p->thread);
    }
    row[S_stack_id].i = (int64_t)p->stack_id;
    row[S_state].name = name_in(r->samples, pb_state_name((enum pb_state)f->state));
    row[S_holds_gil].b = f->holds_gil;
    row[S_waits_gil].b = f->waits_gil;
    row[S_on_cpu].b = f->on_cpu;
    row[S_weight_ms].d = p->weight_ms;
    row[S_samples].i = f->count;
    row[S_step].i = f->step < 0 ? PB_NULL_INT : f->step;
    row[S_phase].name = name_in(r->samples, p->phase);
    row[S_module].name = name_in(r->samples, p->module);
    row[S_torn].b = f->torn;
    row[S_pid].i = o->pid;
    row[S_rank].i = o->rank < 0 ? PB_NULL_INT : o->rank;
    pb_ring_append(r->samples, row);
}
