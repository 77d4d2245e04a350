#include "store/reader.h"

#include <string.h>
#include <sys/stat.h>

#include "store/text.h"

/* Rows looked at in one go; what is overwritten meanwhile costs only this much work. */
enum { PIECE = 1024 };

static const struct pb_ring_head *head_of(const struct pb_reader *r)
{
    return (const void *)r->map;
}

static const _Atomic uint64_t *words_at(const struct pb_reader *r, uint64_t at)
{
    return (const void *)(r->map + at);
}

/* Touching pages behind the end of a file is a SIGBUS. */
static bool is_whole(const struct pb_reader *r)
{
    struct stat st;

    return r->map && fstat(r->fd, &st) == 0 && st.st_size >= 0 && (uint64_t)st.st_size >= r->size;
}

void pb_reader_range(const struct pb_reader *r, uint64_t *ret_first, uint64_t *ret_next)
{
    uint64_t next = 0;

    if (is_whole(r))
        next = atomic_load_explicit(&head_of(r)->next, memory_order_acquire);
    *ret_next = next;
    *ret_first = next > r->capacity ? next - r->capacity : 0;
}

uint64_t pb_reader_dropped(const struct pb_reader *r)
{
    return is_whole(r) ? atomic_load_explicit(&head_of(r)->dropped, memory_order_relaxed) : 0;
}

uint64_t pb_reader_unnamed(const struct pb_reader *r)
{
    return is_whole(r) ? atomic_load_explicit(&head_of(r)->unnamed, memory_order_relaxed) : 0;
}

bool pb_reader_closed(const struct pb_reader *r)
{
    return !is_whole(r) || atomic_load_explicit(&head_of(r)->closed, memory_order_acquire) != 0;
}

static size_t width_of(enum pb_type type)
{
    if (type == PB_BOOL)
        return sizeof(uint8_t);
    return type == PB_NAME ? sizeof(uint32_t) : sizeof(uint64_t);
}

/* Cells of neighbouring slots. Relaxed loads are plain moves; the compiler may not repeat them. */
static void copy_cells(const unsigned char *map, uint64_t at, enum pb_type type, size_t n,
                       unsigned char *to)
{
    const _Atomic uint64_t *wide = (const void *)(map + at);
    const _Atomic uint32_t *names = (const void *)(map + at);
    const _Atomic uint8_t *bools = (const void *)(map + at);

    switch (width_of(type)) {
    case sizeof(uint8_t):
        for (size_t i = 0; i < n; i++)
            to[i] = atomic_load_explicit(&bools[i], memory_order_relaxed);
        return;
    case sizeof(uint32_t):
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)(void *)to)[i] = atomic_load_explicit(&names[i], memory_order_relaxed);
        return;
    default:
        for (size_t i = 0; i < n; i++)
            ((uint64_t *)(void *)to)[i] = atomic_load_explicit(&wide[i], memory_order_relaxed);
    }
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
    return (unsigned char *)c->out[column] + row * width_of(c->r->columns[c->columns[column]].type);
}

/* Are rows [first, first + n), which stand at neighbouring slots, all there? The usual case. */
static bool are_whole(const struct copy *c, uint64_t first, size_t n)
{
    const _Atomic uint64_t *word = words_at(c->r, c->r->sequence_at);
    uint64_t other = 0;

    word += first & (c->r->capacity - 1);
    for (size_t i = 0; i < n; i++)
        other |= atomic_load_explicit(&word[i], memory_order_acquire) ^ PB_SEQ_DONE(first + i);
    return other == 0;
}

/*
 * Lists those of the rows that are there, behind the ones that are listed already. Acquire, here
 * and above: cells are loaded behind their DONE.
 */
static size_t list_whole(struct copy *c, uint64_t first, size_t n)
{
    const _Atomic uint64_t *word = words_at(c->r, c->r->sequence_at);
    bool all = are_whole(c, first, n);
    size_t found = 0;

    word += first & (c->r->capacity - 1);
    for (size_t i = 0; i < n && all; i++)
        c->rows[c->done + i] = first + i;
    for (size_t i = 0; i < n && !all; i++) {
        uint64_t seen = atomic_load_explicit(&word[i], memory_order_acquire);

        c->rows[c->done + found] = first + i;
        found += seen == PB_SEQ_DONE(first + i);
        if (seen < PB_SEQ_DONE(first + i) && c->waiting == UINT64_MAX)
            c->waiting = first + i;
    }
    return all ? n : found;
}

/* Has nobody taken a number yet that goes with the slot of this row, or of one behind it? */
static bool is_untouched(const struct copy *c, uint64_t first)
{
    uint64_t next = atomic_load_explicit(&head_of(c->r)->next, memory_order_relaxed);

    return next >= first && next - first <= c->r->capacity;
}

/*
 * Of the rows listed, those that nobody has begun to overwrite; keeps the cells in step. A writer
 * takes its number before all else, so that one look at `next` mostly does for all rows.
 */
static size_t keep_whole(struct copy *c, uint64_t first, size_t n, size_t found)
{
    const _Atomic uint64_t *words = words_at(c->r, c->r->sequence_at);
    uint64_t mask = c->r->capacity - 1, *rows = c->rows + c->done;
    size_t kept = 0;

    if (found == n && (is_untouched(c, first) || are_whole(c, first, n)))
        return n;
    for (size_t i = 0; i < found; i++)
        if (atomic_load_explicit(&words[rows[i] & mask], memory_order_relaxed) ==
            PB_SEQ_DONE(rows[i]))
            rows[kept++] = rows[i];
    for (size_t k = 0; k < c->ncolumns; k++) {
        size_t width = width_of(c->r->columns[c->columns[k]].type);
        unsigned char *cells = out_at(c, k, c->done);

        for (size_t i = 0; i < kept; i++)
            memmove(cells + i * width, cells + (rows[i] - first) * width, width);
    }
    return kept;
}

static void copy_piece(struct copy *c, uint64_t first, size_t n)
{
    uint64_t slot = first & (c->r->capacity - 1);
    size_t found = list_whole(c, first, n);

    if (!found)
        return;
    for (size_t k = 0; k < c->ncolumns; k++) {
        const struct pb_reader_column *column = &c->r->columns[c->columns[k]];

        copy_cells(c->r->map, column->at + slot * width_of(column->type), column->type, n,
                   out_at(c, k, c->done));
    }
    /*
     * If any of these cells was of a newer row, its writer moved `next` on and stored BUSY before
     * it with a release fence between; this one makes us see both now.
     */
    pb_fence_acquire();
    c->done += keep_whole(c, first, n, found);
}

size_t pb_reader_copy(const struct pb_reader *r, uint64_t first, size_t n, const size_t *columns,
                      size_t ncolumns, void *const *out, uint64_t *rows, uint64_t *ret_waiting)
{
    struct copy c = {r, columns, ncolumns, out, rows, 0, UINT64_MAX};
    bool whole = is_whole(r);

    while (n > 0 && whole) {
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

/* Does a complete entry stand at this place of the dictionary? The length is 0 when unknown. */
static bool is_entry(const struct pb_reader *r, uint64_t at, size_t *ret_len)
{
    struct pb_ring_text head;
    uint64_t word;

    *ret_len = 0;
    if (at > r->dict_size || r->dict_size - at < sizeof head)
        return false;
    /* One load: the length must not change behind its check. Acquire: with its hash stands all. */
    word = atomic_load_explicit(words_at(r, r->dict_at + at), memory_order_acquire);
    memcpy(&head, &word, sizeof head);
    if (head.len > r->dict_size - at - sizeof head)
        return false;
    *ret_len = head.len;
    return head.hash != 0;
}

static uint64_t dict_used(const struct pb_reader *r)
{
    uint64_t used = atomic_load_explicit(&head_of(r)->dict_used, memory_order_relaxed);

    return used < r->dict_size ? used : r->dict_size;
}

static const char *bytes_at(const struct pb_reader *r, uint64_t at)
{
    return (const char *)r->map + r->dict_at + at + sizeof(struct pb_ring_text);
}

const char *pb_reader_name(const struct pb_reader *r, uint32_t name, size_t *ret_len)
{
    uint64_t at = ((uint64_t)name - 1) * 8;

    if (name == PB_NULL_NAME || at >= dict_used(r) || !is_entry(r, at, ret_len))
        return NULL;
    return bytes_at(r, at);
}

void pb_reader_names(const struct pb_reader *r,
                     void (*each)(uint32_t name, const char *s, size_t len, void *arg), void *arg)
{
    uint64_t used = is_whole(r) ? dict_used(r) : 0;
    size_t len;

    /* Where there is not even a length a writer came no further; the next one may have. */
    for (uint64_t at = 0; at < used; at += pb_text_space(len))
        if (is_entry(r, at, &len))
            each((uint32_t)(at / 8 + 1), bytes_at(r, at), len, arg);
}

/* heap_next has not moved a whole circle beyond this entry. */
static bool is_there(const struct pb_reader *r, uint64_t at)
{
    uint64_t next = atomic_load_explicit(&head_of(r)->heap_next, memory_order_relaxed);

    return at < next && next - at <= r->heap_size;
}

/* Copies what fits of a text of len bytes; returns the hash of all of it, begun with this one. */
static uint32_t copy_text(const _Atomic uint64_t *from, uint32_t hash, size_t len, char *buf,
                          size_t cap)
{
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t word = atomic_load_explicit(from++, memory_order_relaxed);
        size_t n = len - at < sizeof word ? len - at : sizeof word;
        char bytes[sizeof word];

        memcpy(bytes, &word, sizeof word);
        for (size_t i = 0; i < n; i++)
            hash = pb_text_hash_byte(hash, bytes[i]);
        if (at < cap)
            memcpy(buf + at, bytes, n < cap - at ? n : cap - at);
    }
    return pb_text_hash_end(hash);
}

long pb_reader_text(const struct pb_reader *r, uint64_t text, char *buf, size_t cap)
{
    uint64_t at = text - 1, in = at & (r->heap_size - 1), word;
    const _Atomic uint64_t *from = words_at(r, r->heap_at + in);
    struct pb_ring_text head;
    uint32_t hash;

    if (text == PB_NULL_TEXT || !r->heap_size || at % 8 != 0 || !is_there(r, at))
        return -1;
    word = atomic_load_explicit(from, memory_order_relaxed);
    memcpy(&head, &word, sizeof word);
    if (head.len > r->heap_size - in - sizeof head)
        return -1;
    hash = copy_text(from + 1, pb_text_seed(at), head.len, buf, cap);
    pb_fence_acquire(); /* as in copy_piece, with heap_next for BUSY */
    if (!is_there(r, at) || hash != head.hash)
        return -1;
    return (long)pb_reader_clean(buf, head.len < cap ? head.len : cap, head.len > cap);
}
