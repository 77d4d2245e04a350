/*
 * reader.h - looking into a ring from outside. Not for the inside of a target.
 *
 * Owns: a descriptor of one ring file, and a checked copy of its schema.
 * Threads: one ring may be read by several threads at once, each with its own buffers.
 * Fails: opening says what is wrong with the file; a row that was overwritten, is not
 * complete or makes no sense is left out, and counted where the caller asks.
 * Not here: finding rings (node/discover/discover.h), SQL.
 *
 * Nothing in the file is trusted: sizes and offsets are checked once at opening against the
 * file's real size, positions at each use; the schema is copied. The file is read, not mapped: its
 * owner may cut it off at any instant, which would end whoever touches a mapping with SIGBUS. Read,
 * it just has nothing more to say. A ring of our own user can be mapped as well, for speed: the
 * mapping is used only by threads that say so first, in a process whose handler of SIGBUS calls
 * pb_reader_mend.
 */
#ifndef PB_STORE_READER_H
#define PB_STORE_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/format.h"

struct pb_column_spec;

struct pb_reader_column {
    char name[PB_RING_COLUMN_NAME];
    char unit[PB_RING_COLUMN_UNIT];
    char doc[PB_RING_COLUMN_DOC];
    enum pb_type type;
    uint64_t at;
};

/* More than any writer can have written: rows, and bytes of one text. */
#define PB_READER_ROWS_MAX (UINT64_C(1) << 56)
#define PB_READER_TEXT_MAX (UINT32_C(1) << 20)

struct pb_reader {
    int fd;
    uint64_t size; /* 0: closed */
    const unsigned char *map; /* NULL: it is not mapped */
    _Atomic bool cut;         /* the mapping has lost a page and is not to be used any more */
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
 * Opens "<dirfd>/<file>", not through a symbolic link. Keeps one descriptor for each ring, not the
 * folder's. On failure r is as after pb_reader_close.
 */
int pb_reader_open(struct pb_reader *r, int dirfd, const char *file, struct pb_err *err);
void pb_reader_close(struct pb_reader *r); /* NULL, zeroed and closed are fine */
/* Leaves out what is not among these columns, with that type; returns how many are left. */
size_t pb_reader_restrict(struct pb_reader *r, const struct pb_column_spec *columns, size_t n);

/* Maps it, if it can be. For rings of our own user. */
void pb_reader_map(struct pb_reader *r);
/*
 * This thread reads that ring from now on, NULL for none; returns what it read before. A mapping
 * is used between the two alone.
 */
const struct pb_reader *pb_reader_guard(const struct pb_reader *r);
const struct pb_reader *pb_reader_guarded(void);
/* For a handler of SIGBUS: was it a page that the ring at hand has lost? Then it reads as zero. */
bool pb_reader_mend(void *address);

/* Copies bytes of the file; false when they are not there (any more). */
bool pb_reader_bytes(const struct pb_reader *r, uint64_t at, void *to, size_t len);
/* What became of it that makes it unreadable, or NULL. */
const char *pb_reader_trouble(const struct pb_reader *r);

/* Rows [*ret_first, *ret_next) may still be there now. */
void pb_reader_range(const struct pb_reader *r, uint64_t *ret_first, uint64_t *ret_next);
uint64_t pb_reader_dropped(const struct pb_reader *r);
uint64_t pb_reader_unnamed(const struct pb_reader *r);
uint64_t pb_reader_heap_next(const struct pb_reader *r); /* bytes of texts written so far */
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
/* Time of the newest of the last rows, which may be out of order by a little; 0: no such rows. */
int64_t pb_reader_last_ns(const struct pb_reader *r);

/*
 * The first row from `first` on that may have been written: whole pages of a file that were never
 * touched are passed over. `next` when there is none below it.
 */
uint64_t pb_reader_skip(const struct pb_reader *r, uint64_t first, uint64_t next);

/*
 * Texts are copied into buf (cap bytes; a longer one is cut at a character), not terminated.
 * Return the length, or -1 when it is NULL, overwritten or nonsense. The bytes are as the writer
 * left them, which need not be UTF-8.
 */
long pb_reader_name(const struct pb_reader *r, uint32_t name, char *buf, size_t cap);
long pb_reader_text(const struct pb_reader *r, uint64_t text, char *buf, size_t cap);

/* A copy of a part of a ring, for many texts one after the other. Zeroed: empty. */
struct pb_reader_window {
    const struct pb_reader *r;
    unsigned char *bytes;
    size_t cap, len;
    uint64_t at;   /* in the file */
    uint64_t next; /* byte of the heap behind which nothing was overwritten when it was copied */
    bool fresh;    /* `next` is not known yet */
};
/* As pb_reader_text, for a caller that has many. */
long pb_reader_text_at(struct pb_reader_window *w, const struct pb_reader *r, uint64_t text,
                       char *buf, size_t cap);
void pb_reader_window_finish(struct pb_reader_window *w);

/* Dictionary in order: calls each for every complete entry, which is there during the call. */
void pb_reader_names(const struct pb_reader *r,
                     void (*each)(uint32_t name, const char *s, size_t len, void *arg), void *arg);
uint64_t pb_reader_dict_used(const struct pb_reader *r); /* bytes */
/* Where a text that goes on behind len must end, so as not to end inside a character. */
size_t pb_reader_cut(const char *s, size_t len);
/* How many bytes from the start are valid UTF-8. */
size_t pb_reader_valid(const char *s, size_t len);
/*
 * Makes len bytes valid UTF-8 in place: each byte that is not becomes '?'. was_cut: the text went
 * on, an incomplete character at its end is left off. Returns the length.
 */
size_t pb_reader_clean(char *s, size_t len, bool was_cut);

#endif
