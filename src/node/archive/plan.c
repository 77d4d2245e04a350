#include "node/archive/plan.h"

#include "base/clock.h"

enum {
    PART_ROWS = 1 << 20, /* most rows of one part */
    CHUNK = 8192,
};

static const uint64_t SECOND = 1000000000, RING_NS = 20000000;
static const int64_t DAY = INT64_C(86400000000000);

/*
 * A row cannot be older than its ring or newer than now, whatever it says. Each date is a file: to
 * another user's rows only yesterday's is believed.
 */
static int64_t row_time(const struct pb_seal_job *j, int64_t ns)
{
    int64_t made = (int64_t)j->ring->reader.created_ns;

    if (j->column == SIZE_MAX || ns == PB_NULL_INT || ns > j->wall_ns)
        return j->wall_ns;
    if (j->ring->store->foreign && ns < j->wall_ns - DAY)
        return j->wall_ns;
    return ns < made && made <= j->wall_ns ? made : ns;
}

bool pb_seal_is_over_budget(const struct pb_seal_job *j)
{
    return !j->final && pb_clock_ns() - j->now_ns > RING_NS;
}

/* How many of `n` rows from `row` on, none of which is written yet, sealing may pass over. */
static uint64_t may_skip(struct pb_seal_job *j, const struct pb_seal_plan *p, uint64_t row,
                         uint64_t n)
{
    struct pb_sealing *s = &j->series->sealing;
    const struct pb_reader *r = &j->ring->reader;
    uint64_t room = r->capacity / 4 * 3, dropped, skipped = s->skipped + p->skipped, lost = 0;

    if (!j->alive || pb_reader_closed(r))
        return n;
    if (s->stuck != row || !s->stuck_ns) {
        s->stuck = row;
        s->stuck_ns = j->now_ns;
    }
    if (j->next - row >= room)
        lost = j->next - row - room + 1;
    /* A dropped row looks like one that is to come. */
    dropped = pb_reader_dropped(r);
    if (dropped > skipped && j->now_ns - s->stuck_ns >= SECOND && dropped - skipped > lost)
        lost = dropped - skipped;
    return lost < n ? lost : n;
}

/* Takes up n copied rows; false when one of a later date ends the part. */
static bool plan_rows(const struct pb_seal_job *j, struct pb_seal_plan *p, const uint64_t *rows,
                      const int64_t *times, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t ns = row_time(j, times[i]);
        int32_t day = (int32_t)(ns / DAY);

        if (!p->whole)
            p->part.day = day;
        else if (day > p->part.day)
            return false;
        p->whole++;
        p->part.last = rows[i];
        p->end = rows[i] + 1;
        if (ns > p->part.last_ns)
            p->part.last_ns = ns;
    }
    return true;
}

/* Passes over rows that are not written; false when one of them must be waited for. */
static bool plan_gap(struct pb_seal_job *j, struct pb_seal_plan *p, uint64_t pos, uint64_t until)
{
    uint64_t n = may_skip(j, p, pos, until - pos);

    p->skipped += n;
    p->end = pos + n;
    return p->end == until;
}

/* Rows [pos, end), of which n were copied; false when the part ends among them. */
static bool plan_chunk(struct pb_seal_job *j, struct pb_seal_plan *p, uint64_t pos, uint64_t end,
                       const uint64_t *rows, const int64_t *times, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t run = 1;

        if (rows[i] > pos && !plan_gap(j, p, pos, rows[i]))
            return false;
        while (i + run < n && rows[i + run] == rows[i] + run)
            run++;
        if (!plan_rows(j, p, rows + i, times + i, run))
            return false;
        i += run;
        pos = rows[i - 1] + 1;
    }
    return pos == end || plan_gap(j, p, pos, end);
}

void pb_seal_plan_part(struct pb_seal_job *j, uint64_t first, struct pb_seal_plan *p)
{
    const struct pb_reader *r = &j->ring->reader;
    uint64_t rows[CHUNK], pos = first;
    uint64_t limit = j->next - first < PART_ROWS ? j->next : first + PART_ROWS;
    int64_t times[CHUNK] = {0};
    void *out[1] = {times};

    *p = (struct pb_seal_plan){.part.first = first, .end = first};
    while (pos < limit && !pb_seal_is_over_budget(j)) {
        uint64_t end = limit - pos < CHUNK ? limit : pos + CHUNK;
        size_t n = pb_reader_copy(r, pos, (size_t)(end - pos), &j->column,
                                  j->column == SIZE_MAX ? 0 : 1, out, rows, NULL);

        if (n == 0) /* where nothing was written, nothing need be looked at */
            end = pb_reader_skip(r, end, limit);
        if (!plan_chunk(j, p, pos, end, rows, times, n))
            return;
        pos = end;
    }
}
