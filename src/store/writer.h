/*
 * writer.h - appending rows to a ring. Safe inside a target.
 *
 * Owns: one mapped ring file.
 * Threads: pb_ring_append and pb_ring_name from any thread and from signal
 * handlers; create, close and abandon from one.
 * Fails: creating says why; appending never does, losses are counted in the ring.
 * Nothing is allocated and no system call is made after pb_ring_create.
 * Not here: where rings live (base/home.h), reading (reader.h).
 */
#ifndef PB_STORE_WRITER_H
#define PB_STORE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/format.h"

struct pb_column_spec {
    const char *name;
    enum pb_type type;
    const char *unit; /* or "" */
    const char *doc;
};

struct pb_ring_spec {
    const char *name; /* "python.memory": schema and table, [a-z0-9_] each */
    const char *doc;
    const struct pb_column_spec *columns; /* the first one is "timestamp" by custom */
    size_t ncolumns;
    uint64_t rows;       /* wanted capacity; made a power of two */
    uint64_t dict_bytes; /* for NAME columns; 0: 64 KiB when there are any */
    uint64_t heap_bytes; /* for TEXT columns; 0: 256 KiB when there are any */
    uint32_t flags;      /* enum pb_ring_flags */
};

/* One cell. Text is copied; a NULL pointer, or len SIZE_MAX, is NULL. */
union pb_cell {
    int64_t i;     /* TIME, INT; PB_NULL_INT is NULL */
    double d;      /* REAL */
    uint8_t b;     /* BOOL */
    uint32_t name; /* NAME: from pb_ring_name */
    struct {
        const char *s;
        size_t len;
    } text; /* TEXT */
};

struct pb_ring;

/* Bytes that the file of such a table takes when there is room; for a budget. */
uint64_t pb_ring_wants(const struct pb_ring_spec *spec);
/*
 * Makes the next free generation of "<name>.<generation>.ring" in the folder dirfd. All space is
 * reserved before it is mapped; when less than wanted can be had, capacity is halved until it
 * fits (ret_note, if not NULL, then says so: a static or spec-owned text), down to 64 rows.
 * The struct itself lies in private pages of its own.
 */
int pb_ring_create(struct pb_ring **ret, int dirfd, const struct pb_ring_spec *spec,
                   const char **ret_note, struct pb_err *err);
/* Marks it closed and unmaps. NULL is fine. No other thread may be appending. */
void pb_ring_close(struct pb_ring *r);
/*
 * Marks it closed; appends turn into nothing from now on. Others may be appending: the addresses
 * stay theirs, as empty private pages, until pb_ring_close; the file's memory is freed.
 */
void pb_ring_retire(struct pb_ring *r);
/* In a forked child: the ring belongs to the parent. Appends turn into nothing; async-safe. */
void pb_ring_abandon(struct pb_ring *r);

/* cells: one for each column, in order. A text longer than a quarter of the heap is cut. */
void pb_ring_append(struct pb_ring *r, const union pb_cell *cells);
/*
 * Dictionary number of a text, of at most its first 1024 bytes; PB_NULL_NAME when the dictionary is
 * full. One that is known costs a hash.
 */
uint32_t pb_ring_name(struct pb_ring *r, const char *s, size_t len);

/* The text behind such a number, for another ring; not ended by a zero. Or NULL. */
const char *pb_ring_text(const struct pb_ring *r, uint32_t name, size_t *ret_len);

uint64_t pb_ring_rows(const struct pb_ring *r);  /* given out so far */
uint64_t pb_ring_bytes(const struct pb_ring *r); /* of the file */

/* The NULL of a REAL cell. */
static inline double pb_null_real(void)
{
    union {
        uint64_t u;
        double d;
    } x = {PB_NULL_REAL_BITS};
    return x.d;
}

#endif
