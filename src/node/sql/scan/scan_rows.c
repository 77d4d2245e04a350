/*
 * Rows of rings into the engine's chunks. Several threads take pieces of rings, each with buffers
 * of its own. A NAME column is handed over as the ring's dictionary and places in it, so that no
 * text is copied for a row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host/text/alloc.h"
#include "node/sql/scan/scan.h"
#include "node/sql/scan/scan_cells.h"
#include "node/watchdog/journal.h"

enum { PIECE_ROWS = 1 << 16, COLUMNS_MAX = PB_RING_COLUMNS_MAX + 2 };

struct piece {
    const struct pb_scan_source *source;
    uint64_t first, next;
};

/* Of one scan. */
struct scan {
    const struct pb_scan_bound *bound;
    size_t *wanted; /* columns of the table, in the order of the output */
    size_t nwanted;
    struct piece *pieces;
    size_t npieces;
    _Atomic size_t next;
};

/* Of one thread. */
struct worker {
    struct piece piece; /* what is left of it */
    struct pb_scan_cells texts;
    const struct pb_scan_source *ready_for; /* what follows is for this one */
    size_t columns[COLUMNS_MAX], ncolumns;  /* the ring's columns that are copied */
    duckdb_value host, pid;
    void *cells[COLUMNS_MAX]; /* cells that do not go into a vector as they are */
    void *out[COLUMNS_MAX];   /* where each column is copied to this time */
    uint64_t rows[PB_DUCK_VECTOR];
};

static void scan_free(void *p)
{
    struct scan *s = p;

    free(s->wanted);
    free(s->pieces);
    free(s);
}

static void cut_pieces(struct scan *s)
{
    size_t cap = 0;

    for (size_t i = 0; i < s->bound->nsources; i++) {
        const struct pb_scan_source *from = &s->bound->sources[i];

        for (uint64_t n = from->first; n < from->next; n += PIECE_ROWS) {
            if (s->npieces == cap) {
                cap = cap ? cap * 2 : 16;
                s->pieces = pb_alloc_resize(s->pieces, cap * sizeof *s->pieces);
            }
            s->pieces[s->npieces++] =
                (struct piece){from, n, from->next - n < PIECE_ROWS ? from->next : n + PIECE_ROWS};
        }
    }
}

static _Atomic unsigned made;

void pb_scan_release(void)
{
    atomic_fetch_add_explicit(&made, 1, memory_order_release);
}

void pb_scan_acquire(void)
{
    atomic_load_explicit(&made, memory_order_acquire);
}

void pb_scan_init(duckdb_init_info info)
{
    const struct pb_duck *d = pb_duck();
    struct scan *s = pb_alloc_resize(NULL, sizeof *s);

    memset(s, 0, sizeof *s);
    s->bound = d->init_get_bind_data(info);
    s->nwanted = d->init_get_column_count(info);
    s->wanted = pb_alloc_resize(NULL, (s->nwanted + 1) * sizeof *s->wanted);
    for (size_t i = 0; i < s->nwanted; i++)
        s->wanted[i] = d->init_get_column_index(info, i);
    cut_pieces(s);
    d->init_set_max_threads(info, s->npieces ? s->npieces : 1);
    pb_scan_release();
    d->init_set_init_data(info, s, scan_free);
}

static void drop_constants(struct worker *w)
{
    if (w->host)
        pb_duck()->destroy_value(&w->host);
    if (w->pid)
        pb_duck()->destroy_value(&w->pid);
}

static void worker_free(void *p)
{
    struct worker *w = p;

    drop_constants(w);
    pb_scan_cells_finish(&w->texts);
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        free(w->cells[i]);
    free(w);
}

void pb_scan_local_init(duckdb_init_info info)
{
    struct worker *w = pb_alloc_resize(NULL, sizeof *w);

    memset(w, 0, sizeof *w);
    w->texts.dict.duck = pb_duck();
    pb_scan_release();
    pb_duck()->init_set_init_data(info, w, worker_free);
}

/* The number of the output's column i in this ring, or an enum; what is not a column is nowhere. */
static int column_in_ring(const struct scan *s, const struct pb_scan_source *from, size_t i)
{
    return s->wanted[i] < s->bound->ncolumns ? from->columns[s->wanted[i]] : PB_SCAN_NOWHERE;
}

/* Which cells to copy from this ring, and what is the same in all its rows. */
static void open_source(struct worker *w, const struct scan *s, const struct pb_scan_source *from)
{
    const struct pb_duck *d = pb_duck();

    if (w->ready_for == from)
        return;
    w->ncolumns = 0;
    for (size_t i = 0; i < s->nwanted; i++)
        if (column_in_ring(s, from, i) >= 0 && w->ncolumns < PB_RING_COLUMNS_MAX)
            w->columns[w->ncolumns++] = (size_t)column_in_ring(s, from, i);
    if (from->pid_at >= 0) {
        w->columns[w->ncolumns++] = (size_t)from->pid_at;
        if (from->time_at >= 0)
            w->columns[w->ncolumns++] = (size_t)from->time_at;
    }
    drop_constants(w);
    w->host = pb_sql_text_value(d, from->ring->store->host);
    w->pid = d->create_int64(from->ring->store->process.pid);
    w->ready_for = from;
}

/* The cells of column k go into the vector itself where the two look the same. */
static void set_destination(struct worker *w, size_t k, enum pb_type type, duckdb_vector v)
{
    if (v && type != PB_NAME && type != PB_TEXT) {
        w->out[k] = pb_duck()->vector_get_data(v);
        return;
    }
    if (!w->cells[k])
        w->cells[k] = pb_alloc_resize(NULL, PB_DUCK_VECTOR * sizeof(uint64_t));
    w->out[k] = w->cells[k];
}

/* Where to look for a pid: all living processes are many, and sorted. */
static size_t first_of_pid(const struct pb_scope *scope, int64_t pid)
{
    size_t low = 0, high = scope->living ? scope->nprocesses : 0;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (scope->processes[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A row without a pid is about the machine, and so about all its processes. */
static bool is_in_scope(const struct pb_scope *scope, int64_t pid, int64_t time_ns)
{
    const int64_t slack = 1000000000;

    if (pid == PB_NULL_INT)
        return true;
    for (size_t i = first_of_pid(scope, pid); i < scope->nprocesses; i++) {
        const struct pb_scope_process *p = &scope->processes[i];

        if (scope->living && p->pid != pid)
            return false;
        if (p->pid == pid && (time_ns == PB_NULL_INT ||
                              (time_ns >= p->since_ns - slack &&
                               (p->until_ns == INT64_MAX || time_ns <= p->until_ns + slack))))
            return true;
    }
    return false;
}

/* Of a shared ring: rows about other processes, or about an older one of that number, go. */
static size_t keep_scope(struct worker *w, const struct pb_scan_source *from,
                         const struct pb_scope *scope, size_t n)
{
    const struct pb_reader_column *columns = from->ring->reader.columns;
    size_t extra = from->time_at >= 0 ? 2 : 1, kept = 0;
    const int64_t *pids = w->out[w->ncolumns - extra];
    const int64_t *times = extra == 2 ? w->out[w->ncolumns - 1] : NULL;

    for (size_t i = 0; i < n; i++) {
        if (!is_in_scope(scope, pids[i], times ? times[i] : PB_NULL_INT))
            continue;
        for (size_t k = 0; kept != i && k < w->ncolumns; k++) {
            size_t width = pb_type_width(columns[w->columns[k]].type);

            memcpy((char *)w->out[k] + kept * width, (char *)w->out[k] + i * width, width);
        }
        w->rows[kept++] = w->rows[i];
    }
    return kept;
}

/* What is not in the ring itself. */
static void put_other(struct worker *w, const struct pb_scan_source *from, int place,
                      duckdb_vector v, size_t n)
{
    int64_t rank = atomic_load(&from->ring->rank);
    const struct pb_duck *d = pb_duck();

    if (place == PB_SCAN_HOST) {
        d->vector_reference_value(v, w->host);
    } else if (place == PB_SCAN_PID) {
        d->vector_reference_value(v, w->pid);
    } else if (place == PB_SCAN_RANK && rank >= 0) {
        int64_t *cells = d->vector_get_data(v);

        for (size_t i = 0; i < n; i++)
            cells[i] = rank;
    } else if (place == PB_SCAN_ROW) {
        memcpy(d->vector_get_data(v), w->rows, n * sizeof *w->rows);
    } else {
        pb_sql_put_nulls(d, v, n);
    }
}

/* Nobody waits for the answer any more; rings full of nothing must not keep us from seeing that. */
static bool is_over(const struct pb_sql_task *t)
{
    return (t->cancelled && atomic_load(t->cancelled)) ||
           (t->deadline_ns && pb_clock_ns() > t->deadline_ns);
}

/* Up to a chunk of the piece; how many rows came out. */
static size_t copy_chunk(struct worker *w, const struct scan *s, duckdb_data_chunk output)
{
    const struct pb_scan_source *from = w->piece.source;
    const struct pb_reader *r = &from->ring->reader;
    size_t n = w->piece.next - w->piece.first, k = 0;
    const struct pb_duck *d = pb_duck();

    if (n > PB_DUCK_VECTOR)
        n = PB_DUCK_VECTOR;
    for (size_t i = 0; i < s->nwanted; i++)
        if (column_in_ring(s, from, i) >= 0 && k < PB_RING_COLUMNS_MAX) {
            set_destination(w, k, r->columns[w->columns[k]].type,
                            d->data_chunk_get_vector(output, i));
            k++;
        }
    for (; k < w->ncolumns; k++)
        set_destination(w, k, PB_TEXT, NULL);
    k = n;
    n = pb_reader_copy(r, w->piece.first, n, w->columns, w->ncolumns, w->out, w->rows, NULL);
    w->piece.first += k;
    if (n == 0)
        w->piece.first = pb_reader_skip(r, w->piece.first, w->piece.next);
    if (from->pid_at >= 0)
        n = keep_scope(w, from, s->bound->task->scope, n);
    return n;
}

static void finish_chunk(struct worker *w, const struct scan *s, duckdb_data_chunk output,
                         size_t n)
{
    const struct pb_scan_source *from = w->piece.source;
    const struct pb_reader *r = &from->ring->reader;
    const struct pb_duck *d = pb_duck();
    size_t k = 0;

    for (size_t i = 0; i < s->nwanted; i++) {
        duckdb_vector v = d->data_chunk_get_vector(output, i);
        int place = column_in_ring(s, from, i);

        if (s->wanted[i] >= s->bound->ncolumns)
            continue; /* nothing but the number of rows is wanted */
        if (place < 0 || k >= PB_RING_COLUMNS_MAX) {
            put_other(w, from, place, v, n);
            continue;
        }
        pb_scan_cells_put(&w->texts, r, r->columns[w->columns[k]].type,
                          s->bound->types[s->wanted[i]], v, w->out[k], n);
        k++;
    }
}

/* Whatever is read next was written by a stranger. */
static int begin_ring(struct pb_journal *j, const struct pb_store_ring *ring)
{
    struct pb_ring_identity is = {ring->device, ring->inode, ring->reader.created_ns};

    return pb_journal_begin_ring(j, &is);
}

void pb_scan_rows(duckdb_function_info info, duckdb_data_chunk output)
{
    const struct pb_duck *d = pb_duck();
    struct scan *s = d->function_get_init_data(info);
    struct worker *w = d->function_get_local_init_data(info);
    const struct pb_reader *before = pb_reader_guarded();
    struct pb_sql_task *task;
    struct pb_journal *journal;
    size_t n = 0;
    int entry = -1;

    pb_scan_acquire();
    task = s->bound->task;
    journal = task->sql->with.journal;
    while (n == 0 && !is_over(task)) {
        pb_journal_end(journal, entry);
        entry = -1;
        if (w->piece.first >= w->piece.next) {
            size_t i = atomic_fetch_add(&s->next, 1);

            if (i >= s->npieces)
                break;
            w->piece = s->pieces[i];
            entry = begin_ring(journal, w->piece.source->ring);
            open_source(w, s, w->piece.source);
        } else {
            entry = begin_ring(journal, w->piece.source->ring);
        }
        pb_reader_guard(&w->piece.source->ring->reader);
        n = copy_chunk(w, s, output);
    }
    if (n > 0)
        finish_chunk(w, s, output, n);
    else if (is_over(task))
        d->function_set_error(info, "the time for this query is up");
    pb_reader_guard(before);
    pb_journal_end(journal, entry);
    if (task->ring)
        atomic_fetch_add(&task->ring_rows, n);
    d->data_chunk_set_size(output, n);
}
