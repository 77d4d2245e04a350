/*
 * reader.h - looking into a ring from outside. Not for the inside of a target.
 *
 * Owns: a read-only mapping of one ring file, and a checked copy of its schema.
 * Threads: one ring may be read by several threads at once, each with its own buffers.
 * Fails: opening says what is wrong with the file; a row that was overwritten, is not
 * complete or makes no sense is left out, and counted where the caller asks.
 * Not here: finding rings (node/discover.h), SQL.
 *
 * Nothing in the file is trusted: sizes and offsets are checked once at opening against the
 * file's real size, positions at each use; the schema is copied. A file that has shrunk since is
 * not touched: its size is looked at before each pass (range, copy, names, counters), which
 * then find nothing. What remains: a file cut in the midst of a pass, which only its owner can
 * do and the writer never does, is a SIGBUS.
 */
#ifndef PB_STORE_READER_H
#define PB_STORE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/format.h"

struct pb_reader_column {
    char name[PB_RING_COLUMN_NAME];
    char unit[PB_RING_COLUMN_UNIT];
    char doc[PB_RING_COLUMN_DOC];
    enum pb_type type;
    uint64_t at;
};

struct pb_reader {
    int fd;
    const unsigned char *map;
    size_t size;
    uint64_t capacity;
    uint64_t sequence_at, dict_at, dict_size, heap_at, heap_size;
    uint64_t created_ns;
    uint32_t flags, generation;
    char name[PB_RING_NAME];
    char doc[PB_RING_DOC];
    struct pb_reader_column *columns; /* known types only */
    size_t ncolumns;
};

/*
 * Opens "<dirfd>/<file>", not through a symbolic link. Keeps one descriptor for each ring (to see
 * its size), not the folder's. On failure r is as after pb_reader_close.
 */
int pb_reader_open(struct pb_reader *r, int dirfd, const char *file, struct pb_err *err);
void pb_reader_close(struct pb_reader *r); /* NULL, zeroed and closed are fine */

/* Rows [*ret_first, *ret_next) may still be there now. */
void pb_reader_range(const struct pb_reader *r, uint64_t *ret_first, uint64_t *ret_next);
uint64_t pb_reader_dropped(const struct pb_reader *r);
uint64_t pb_reader_unnamed(const struct pb_reader *r);
bool pb_reader_closed(const struct pb_reader *r);

/*
 * Copies up to n rows from number `first` on. For each wanted column i (index into columns)
 * out[i] receives n cells of its width, packed: TIME and INT int64_t, REAL double, BOOL uint8_t,
 * NAME uint32_t, TEXT uint64_t. rows[k] receives the number of the k-th row copied. Returns how
 * many came out whole; rows that were not (yet) DONE or were overwritten meanwhile are left out
 * and the rest moves up. *ret_waiting, if not NULL: number of the first row in the range that is
 * still BUSY or not begun (its writer may be at it), or UINT64_MAX. Do not wait for it for ever:
 * a row that was dropped looks like that until its slot is used again, and so does the row that a
 * killed writer was at. One that is not there a second later, or when the ring is closed or its
 * process gone, is lost.
 */
size_t pb_reader_copy(const struct pb_reader *r, uint64_t first, size_t n, const size_t *columns,
                      size_t ncolumns, void *const *out, uint64_t *rows, uint64_t *ret_waiting);

/*
 * Text of a NAME cell: a pointer into the mapping, never terminated; NULL for NULL and nonsense.
 * The bytes are as the writer left them, which need not be UTF-8 and could even change: copy, then
 * pb_reader_clean. The same holds for pb_reader_names.
 */
const char *pb_reader_name(const struct pb_reader *r, uint32_t name, size_t *ret_len);
/* Dictionary in order: calls each for every complete entry; for dictionary vectors. */
void pb_reader_names(const struct pb_reader *r,
                     void (*each)(uint32_t name, const char *s, size_t len, void *arg), void *arg);
/*
 * Text of a TEXT cell, copied into buf (cap bytes; a longer one is cut at a character) and made
 * clean. Returns the length, or -1 when it is NULL, overwritten or nonsense.
 */
long pb_reader_text(const struct pb_reader *r, uint64_t text, char *buf, size_t cap);
/*
 * Makes len bytes valid UTF-8 in place: each byte that is not becomes '?'. was_cut: the text went
 * on, an incomplete character at its end is left off. Returns the length.
 */
size_t pb_reader_clean(char *s, size_t len, bool was_cut);

#endif
