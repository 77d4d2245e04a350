/*
 * Sealing: from a ring into a file, before the rows are overwritten.
 *
 * A part holds rows that are whole, of one UTC date. Sealing stops before a row whose writer is
 * still at it; such a row is passed over only when its process is gone, when the ring says that it
 * dropped rows, or when waiting on would lose the rows behind it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "node/archive/plan.h"

enum {
    MANY_ROWS = 1 << 18, /* enough for a file of good size: do not wait for more */
    PARTS_PER_LOOK = 4,
    FOREIGN_SERIES_MAX = 4096, /* in our history, of one other user */
    FOREIGN_TABLES_MAX = 128,
};

static const uint64_t MS = 1000000, SECOND = 1000000000, LAZY = PB_SEAL_LAZY_NS;
/* Another user's ring is looked at again no sooner than this. */
static const uint64_t FOREIGN_PAUSE_NS = 100000000;

static size_t time_column(const struct pb_reader *r)
{
    size_t first = SIZE_MAX;

    for (size_t i = 0; i < r->ncolumns; i++) {
        if (r->columns[i].type != PB_TIME)
            continue;
        if (strcmp(r->columns[i].name, "timestamp") == 0)
            return i;
        if (first == SIZE_MAX)
            first = i;
    }
    return first;
}

static void count_lost(struct pb_archive *a, uint64_t rows)
{
    pthread_mutex_lock(&a->index);
    a->status.lost_rows += rows;
    pthread_mutex_unlock(&a->index);
}

/* The part is made: rows that were passed over and that the ring did not drop are lost. */
static void count_skipped(struct pb_seal_job *j, const struct pb_seal_plan *p)
{
    struct pb_sealing *s = &j->series->sealing;
    uint64_t dropped = pb_reader_dropped(&j->ring->reader), before = s->skipped;

    if (!p->skipped)
        return;
    s->skipped += p->skipped;
    s->stuck_ns = 0;
    if (s->skipped > dropped)
        count_lost(j->a, s->skipped - (before > dropped ? before : dropped));
}

/*
 * It fills within two seconds. Then we do not wait for the disk: the system writes the file in its
 * own time, and the merged one that follows in seconds is synced. A node that is killed loses
 * nothing by that; a machine that goes down loses its shared memory anyway.
 */
static bool is_fast(const struct pb_seal_job *j)
{
    return j->series->sealing.pace * 2 > (double)j->ring->reader.capacity;
}

static int commit(struct pb_seal_job *j, struct pb_seal_plan *p, const char *temp, const char *path,
                  struct pb_err *err)
{
    struct pb_archive *a = j->a;
    int rc;

    pb_gate_change(&a->gate);
    rc = rename(temp, path);
    if (rc < 0) {
        pb_err_set(err, PB_FAIL, "%s: %s", path, strerror(errno));
    } else {
        pthread_mutex_lock(&a->index);
        p->part.seen = a->lake.scan + 1; /* a walk that has passed the folder shall not miss it */
        pb_lake_add(&a->lake, j->series, &p->part);
        j->series->ours = true;
        a->status.sealed_rows += p->part.rows;
        a->status.sealed_files++;
        pthread_mutex_unlock(&a->index);
        atomic_store(&j->ring->sealed, p->end);
    }
    pb_gate_close(&a->gate);
    return rc;
}

static int write_part(struct pb_seal_job *j, struct pb_seal_plan *p, struct pb_err *err)
{
    char temp[PB_LAKE_PATH_MAX], path[PB_LAKE_PATH_MAX];
    struct pb_archive *a = j->a;
    uint64_t rows = 0;
    bool sync = !is_fast(j);

    if (pb_part_folder(&a->lake, &j->series->id, p->part.day, path) < 0 ||
        pb_archive_temp(a, &j->series->id, &p->part, temp) < 0)
        return pb_err_set(err, PB_FAIL, "%.64s…: the path is too long", a->lake.root);
    if (pb_lake_make(path, 0700, err) < 0)
        return -1;
    if (a->writer.write(a->writer.arg, j->ring, p->part.first, p->part.last, temp, &rows,
                        err) < 0)
        goto remove_temp;
    if (rows < p->whole)
        count_lost(a, p->whole - rows); /* overwritten while it was being written */
    if (!rows) {
        unlink(temp);
        atomic_store(&j->ring->sealed, p->end);
        return 0;
    }
    pb_part_path(&a->lake, &j->series->id, &p->part, path);
    if (pb_archive_finish_file(temp, &p->part, sync, err) < 0 || commit(j, p, temp, path, err) < 0)
        goto remove_temp;
    if (sync)
        pb_archive_sync_folder(path);
    return 0;
remove_temp:
    unlink(temp);
    return -1;
}

static void failed(struct pb_seal_job *j, struct pb_err *err)
{
    struct pb_sealing *s = &j->series->sealing;

    pb_err_prefix(err, "history of %s, process %s", j->series->id.table, j->series->id.process);
    pb_archive_reason(j->a, err);
    s->wait_ns = s->wait_ns ? 2 * s->wait_ns : SECOND;
    if (s->wait_ns > 60 * SECOND)
        s->wait_ns = 60 * SECOND;
    s->retry_ns = j->now_ns + s->wait_ns;
}

/* Seals parts from `first` on; true when something is left that could be sealed at once. */
static bool seal(struct pb_seal_job *j, uint64_t first)
{
    struct pb_sealing *s = &j->series->sealing;
    struct pb_seal_plan p;

    for (int n = 0; first < j->next; n++) {
        struct pb_err err = {0};

        if ((n == PARTS_PER_LOOK && !j->final) || pb_seal_is_over_budget(j))
            return true;
        pb_seal_plan_part(j, first, &p);
        if (p.end == first)
            return pb_seal_is_over_budget(j);
        if (!p.whole) {
            atomic_store(&j->ring->sealed, p.end);
        } else if (write_part(j, &p, &err) < 0) {
            failed(j, &err);
            return false;
        }
        count_skipped(j, &p);
        first = p.end;
        s->wait_ns = s->retry_ns = 0;
        s->since_ns = first < j->next ? j->now_ns : 0;
        s->heap_at = pb_reader_heap_next(&j->ring->reader);
        pb_archive_reason(j->a, NULL);
    }
    return false;
}

/* Rows when it is time to seal. */
static uint64_t enough_rows(const struct pb_seal_job *j)
{
    return j->ring->reader.capacity / (is_fast(j) ? 4 : 2);
}

/* Rows or texts are about to be overwritten. */
static bool is_urgent(const struct pb_seal_job *j, uint64_t rows)
{
    const struct pb_reader *r = &j->ring->reader;
    uint64_t texts = pb_reader_heap_next(r) - j->series->sealing.heap_at;

    return j->alive &&
           (rows >= enough_rows(j) || (r->heap_size && texts >= r->heap_size / 2));
}

static bool is_due(const struct pb_seal_job *j, uint64_t rows)
{
    const struct pb_sealing *s = &j->series->sealing;

    return j->final || !j->alive || pb_reader_closed(&j->ring->reader) || rows >= MANY_ROWS ||
           j->now_ns - s->since_ns >= (uint64_t)atomic_load(&j->a->delay_ns);
}

static void measure_pace(const struct pb_seal_job *j)
{
    struct pb_sealing *s = &j->series->sealing;
    double seconds = (double)(j->now_ns - s->look_ns) / 1e9;

    s->pace = s->look && seconds > 0 && j->next > s->next_at
                  ? (double)(j->next - s->next_at) / seconds
                  : 0;
}

/* Nanoseconds until there are enough rows at this pace. */
static uint64_t next_look(const struct pb_seal_job *j, uint64_t rows)
{
    const struct pb_sealing *s = &j->series->sealing;
    uint64_t enough = enough_rows(j);
    double wait;

    if (!j->alive || (s->look && s->pace == 0) || j->now_ns < s->retry_ns)
        return LAZY;
    if (!s->look)
        return 100 * MS;
    wait = rows < enough ? (double)(enough - rows) / s->pace * 1e9 : 0;
    return wait < 10e6 ? 10 * MS : wait < 100e6 ? (uint64_t)wait : 100 * MS;
}

/*
 * May another user's ring begin a series? Whoever makes ever new processes and tables would fill
 * our history with files and names. Index lock held.
 */
static bool has_room(struct pb_lake *l, const struct pb_series_id *id, uid_t uid)
{
    size_t series = 0, tables = 0, len = (size_t)snprintf(NULL, 0, "-%u", (unsigned)uid);
    const char *table = "", *end = id->process + strlen(id->process);
    bool new = true;

    if (pb_lake_find(l, id) || (size_t)(end - id->process) < len)
        return true;
    for (size_t i = 0; i < l->nseries; i++) {
        const struct pb_series_id *its = &l->series[i]->id; /* sorted by table */
        size_t n = strlen(its->process);

        if (n < len || strcmp(its->process + n - len, end - len) != 0)
            continue;
        series++;
        tables += strcmp(its->table, table) != 0;
        table = its->table;
        new = new && strcmp(its->table, id->table) != 0;
    }
    return series < FOREIGN_SERIES_MAX && tables + new <= FOREIGN_TABLES_MAX;
}

static struct pb_series *series_of(struct pb_archive *a, const struct pb_store_ring *ring)
{
    const struct pb_store *store = ring->store;
    struct pb_series_id id;
    struct pb_series *s;

    if (!pb_lake_is_table(ring->reader.name))
        return NULL;
    pb_series_name(&id, ring->reader.name, store->host, store->process.id,
                   ring->reader.created_ns);
    pthread_mutex_lock(&a->index);
    s = store->foreign && !has_room(&a->lake, &id, store->uid) ? NULL
                                                               : pb_lake_series(&a->lake, &id);
    pthread_mutex_unlock(&a->index);
    return s;
}

static uint64_t seal_ring(struct pb_seal_job *j)
{
    struct pb_sealing *s = &j->series->sealing;
    uint64_t first, sealed = atomic_load(&j->ring->sealed), wait;
    bool more = false;

    pb_reader_range(&j->ring->reader, &first, &j->next);
    if (first > sealed) {
        /* Those that were overwritten before this node came are not its loss. */
        if (s->look)
            count_lost(j->a, first - sealed);
        atomic_store(&j->ring->sealed, first);
        sealed = first;
    }
    measure_pace(j);
    if (j->next <= sealed) {
        s->since_ns = 0;
        wait = next_look(j, 0);
    } else {
        if (!s->since_ns)
            s->since_ns = j->now_ns;
        wait = next_look(j, j->next - sealed);
        if (j->now_ns < s->retry_ns && !j->final) {
            more = false;
        } else if (is_urgent(j, j->next - sealed)) {
            atomic_store(&j->a->hot_ns, j->now_ns);
            more = seal(j, sealed);
        } else if (is_due(j, j->next - sealed)) {
            more = j->late || seal(j, sealed);
        }
    }
    s->next_at = j->next;
    s->look_ns = j->now_ns;
    s->look = j->a->look;
    if (more)
        return j->ring->store->foreign ? FOREIGN_PAUSE_NS : 0;
    return wait;
}

uint64_t pb_archive_seal(struct pb_archive *a, struct pb_store_ring *ring, bool alive,
                         enum pb_seal_urgency urgency)
{
    struct pb_seal_job j = {.a = a,
                            .ring = ring,
                            .alive = alive,
                            .final = urgency == PB_SEAL_ALL,
                            .late = urgency == PB_SEAL_URGENT,
                            .now_ns = pb_clock_ns(),
                            .wall_ns = pb_clock_wall_ns(),
                            .series = series_of(a, ring)};
    const struct pb_reader *before;
    uint64_t wait;

    if (!j.series)
        return LAZY;
    j.column = time_column(&ring->reader);
    before = pb_reader_guard(&ring->reader);
    wait = seal_ring(&j);
    pb_reader_guard(before);
    return wait;
}
