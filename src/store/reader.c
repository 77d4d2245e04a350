#include "store/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/text.h"

/* Rows looked at in one go; what is overwritten meanwhile costs only this much work. */
enum { PIECE = 2048 };

/* Rows at the end among which the newest one is. */
enum { LAST_ROWS = 64 };

/* The part of the head that its writer keeps changing. */
struct live {
    uint64_t next, heap_next, unused[6], dropped, unnamed;
    uint32_t dict_used, closed;
};

#define LIVE_AT offsetof(struct pb_ring_head, next)
_Static_assert(LIVE_AT + offsetof(struct live, dropped) == offsetof(struct pb_ring_head, dropped),
               "ring layout");
_Static_assert(LIVE_AT + offsetof(struct live, closed) == offsetof(struct pb_ring_head, closed),
               "ring layout");

static bool read_bytes(const struct pb_reader *r, uint64_t at, unsigned char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = pread(r->fd, p, len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

bool pb_reader_bytes(const struct pb_reader *r, uint64_t at, void *to, size_t len)
{
    const struct pb_reader *before;
    bool there;

    if (!r->size || at > r->size || len > r->size - at)
        return false;
    if (r->map && pb_reader_guarded() == r &&
        !atomic_load_explicit(&r->cut, memory_order_relaxed)) {
        memcpy(to, r->map + at, len);
        return !atomic_load_explicit(&r->cut, memory_order_relaxed);
    }
    before = pb_reader_guard(r); /* what goes wrong now is this ring's fault */
    there = read_bytes(r, at, to, len);
    pb_reader_guard(before);
    return there;
}

/* All zero when the file has lost its head. */
static struct live live_of(const struct pb_reader *r)
{
    struct live l;

    if (!pb_reader_bytes(r, LIVE_AT, &l, sizeof l))
        l = (struct live){.closed = 1};
    return l;
}

void pb_reader_range(const struct pb_reader *r, uint64_t *ret_first, uint64_t *ret_next)
{
    uint64_t next = live_of(r).next;

    if (next > PB_READER_ROWS_MAX)
        next = 0;
    *ret_next = next;
    *ret_first = next > r->capacity ? next - r->capacity : 0;
}

const char *pb_reader_trouble(const struct pb_reader *r)
{
    struct live l;

    if (!pb_reader_bytes(r, LIVE_AT, &l, sizeof l))
        return "it was cut off";
    if (l.next > PB_READER_ROWS_MAX)
        return "its head says that more rows were written than can be";
    return NULL;
}

uint64_t pb_reader_dropped(const struct pb_reader *r)
{
    return live_of(r).dropped;
}

uint64_t pb_reader_unnamed(const struct pb_reader *r)
{
    return live_of(r).unnamed;
}

uint64_t pb_reader_heap_next(const struct pb_reader *r)
{
    return r->heap_size ? live_of(r).heap_next : 0;
}

bool pb_reader_closed(const struct pb_reader *r)
{
    return live_of(r).closed != 0;
}

/* What is asked for, and how far the answer is. */
struct copy {
    const struct pb_reader *r;
    const size_t *columns;
    size_t ncolumns;
    void *const *out;
    uint64_t *rows;
    size_t done;
    uint64_t waiting;
};

static unsigned char *out_at(const struct copy *c, size_t column, size_t row)
{
    enum pb_type type = c->r->columns[c->columns[column]].type;

    return (unsigned char *)c->out[column] + row * pb_type_width(type);
}

/*
 * The sequence words of rows [first, first + n), which stand at neighbouring slots. The kernel
 * copies aligned words whole.
 */
static bool get_words(const struct copy *c, uint64_t first, size_t n, uint64_t *words)
{
    uint64_t slot = first & (c->r->capacity - 1);
    bool there = pb_reader_bytes(c->r, c->r->sequence_at + slot * sizeof *words, words,
                                 n * sizeof *words);

    pb_fence_acquire(); /* what is copied next is no older than these */
    return there;
}

/* Are these all DONE? The usual case. */
static bool are_whole(const uint64_t *words, uint64_t first, size_t n)
{
    uint64_t other = 0;

    for (size_t i = 0; i < n; i++)
        other |= words[i] ^ PB_SEQ_DONE(first + i);
    return other == 0;
}

/* Lists those of the rows that are there, behind the ones that are listed already. */
static size_t list_whole(struct copy *c, const uint64_t *words, uint64_t first, size_t n)
{
    bool all = are_whole(words, first, n);
    size_t found = 0;

    for (size_t i = 0; i < n && all; i++)
        c->rows[c->done + i] = first + i;
    for (size_t i = 0; i < n && !all; i++) {
        c->rows[c->done + found] = first + i;
        found += words[i] == PB_SEQ_DONE(first + i);
        if (words[i] < PB_SEQ_DONE(first + i) && c->waiting == UINT64_MAX)
            c->waiting = first + i;
    }
    return all ? n : found;
}

/* Has nobody taken a number yet that goes with the slot of this row, or of one behind it? */
static bool is_untouched(const struct copy *c, uint64_t first)
{
    uint64_t next;

    return pb_reader_bytes(c->r, LIVE_AT, &next, sizeof next) && next >= first &&
           next - first <= c->r->capacity;
}

/*
 * Of the rows listed, those that nobody has begun to overwrite; keeps the cells in step. A writer
 * takes its number before all else, so that one look at `next` mostly does for all rows.
 */
static size_t keep_whole(struct copy *c, uint64_t *words, uint64_t first, size_t n, size_t found)
{
    uint64_t *rows = c->rows + c->done;
    size_t kept = 0;

    if (found == n && is_untouched(c, first))
        return n;
    if (!get_words(c, first, n, words))
        return 0;
    if (found == n && are_whole(words, first, n))
        return n;
    for (size_t i = 0; i < found; i++)
        if (words[rows[i] - first] == PB_SEQ_DONE(rows[i]))
            rows[kept++] = rows[i];
    for (size_t k = 0; k < c->ncolumns; k++) {
        size_t width = pb_type_width(c->r->columns[c->columns[k]].type);
        unsigned char *cells = out_at(c, k, c->done);

        for (size_t i = 0; i < kept; i++)
            memmove(cells + i * width, cells + (rows[i] - first) * width, width);
    }
    return kept;
}

static void copy_piece(struct copy *c, uint64_t first, size_t n)
{
    uint64_t slot = first & (c->r->capacity - 1), words[PIECE];
    size_t found = get_words(c, first, n, words) ? list_whole(c, words, first, n) : 0;

    if (!found)
        return;
    for (size_t k = 0; k < c->ncolumns; k++) {
        const struct pb_reader_column *column = &c->r->columns[c->columns[k]];
        size_t width = pb_type_width(column->type);

        if (!pb_reader_bytes(c->r, column->at + slot * width, out_at(c, k, c->done), n * width))
            return;
    }
    /*
     * If any of these cells was of a newer row, its writer moved `next` on and stored BUSY before
     * it with a release fence between; this one makes us see both now.
     */
    pb_fence_acquire();
    c->done += keep_whole(c, words, first, n, found);
}

size_t pb_reader_copy(const struct pb_reader *r, uint64_t first, size_t n, const size_t *columns,
                      size_t ncolumns, void *const *out, uint64_t *rows, uint64_t *ret_waiting)
{
    struct copy c = {r, columns, ncolumns, out, rows, 0, UINT64_MAX};

    while (n > 0 && r->size) {
        uint64_t behind = r->capacity - (first & (r->capacity - 1)); /* up to the last slot */
        size_t some = n < PIECE ? n : PIECE;

        some = some < behind ? some : (size_t)behind;
        copy_piece(&c, first, some);
        first += some;
        n -= some;
    }
    if (ret_waiting)
        *ret_waiting = c.waiting;
    return c.done;
}

uint64_t pb_reader_skip(const struct pb_reader *r, uint64_t first, uint64_t next)
{
    uint64_t slot = first & (r->capacity - 1), behind = r->capacity - slot;
    uint64_t at = r->sequence_at + slot * sizeof(uint64_t), run;
    off_t data;

    if (!r->size || first >= next)
        return next;
    data = lseek(r->fd, (off_t)at, SEEK_DATA);
    if (data < 0 && errno != ENXIO)
        return first; /* a file system that does not tell */
    run = data < 0 ? behind : ((uint64_t)data - at) / sizeof(uint64_t);
    run = run < behind ? run : behind;
    return run < next - first ? first + run : next;
}

int64_t pb_reader_last_ns(const struct pb_reader *r)
{
    int64_t times[LAST_ROWS], last = 0;
    uint64_t rows[LAST_ROWS], first, next;
    void *out[] = {times};
    size_t column = 0, n;

    if (!r->ncolumns || r->columns[0].type != PB_TIME)
        return 0;
    pb_reader_range(r, &first, &next);
    if (next - first > LAST_ROWS)
        first = next - LAST_ROWS;
    n = pb_reader_copy(r, first, (size_t)(next - first), &column, 1, out, rows, NULL);
    for (size_t i = 0; i < n; i++)
        if (times[i] > last)
            last = times[i];
    return last;
}
