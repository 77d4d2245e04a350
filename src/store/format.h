/*
 * format.h - a ring file: one table of one process, in shared memory.
 *
 * Owns: nothing; the layout only. docs/store-format.md explains it in words.
 * Threads: any number of writers in one process, any number of readers.
 * Fails: never. Whoever reads a ring checks everything: another process wrote it.
 * Not here: writing (writer.h), reading (reader.h).
 *
 * Needs nothing but a C11 compiler, so that any program can write a ring.
 *
 *     head | columns | slots: sequence, column 0, column 1, … | dictionary | heap
 *
 * Rows are numbered from 0. Row n stands in slot n % capacity of every column.
 * A writer takes the next number from head.next, claims the slot by moving its
 * sequence word from 0 or the DONE of a lower row to BUSY(n), stores the cells,
 * and sets DONE(n). If the slot is BUSY, a slower writer still holds it: the row
 * is dropped and counted in head.dropped. A reader takes a row when the word is
 * DONE(n) both before and after it copied the cells. Nobody ever waits, so a
 * writer may be a signal handler.
 *
 * Version: a reader refuses another `major`. Within one, fields and column types
 * are only added: a reader goes by head_size and column_size, takes fields that it
 * does not know for absent, and leaves out columns of a type that it does not know.
 */
#ifndef PB_STORE_FORMAT_H
#define PB_STORE_FORMAT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PB_RING_MAGIC "PBRING\r\n" /* 8 bytes, no terminator */
#define PB_RING_MAJOR 1
#define PB_RING_MINOR 0

enum {
    PB_RING_NAME = 64,
    PB_RING_DOC = 160,
    PB_RING_COLUMN_NAME = 40,
    PB_RING_COLUMN_UNIT = 16,
    PB_RING_COLUMN_DOC = 120,
    PB_RING_COLUMNS_MAX = 64,
};

/* X(name, number, bytes in a slot, meaning) */
#define PB_TYPES(X)                                                                                \
    X(TIME, 1, 8, "nanoseconds since 1970 UTC, signed")                                            \
    X(INT, 2, 8, "signed integer")                                                                 \
    X(REAL, 3, 8, "IEEE double")                                                                   \
    X(BOOL, 4, 1, "0 or 1")                                                                        \
    X(NAME, 5, 4, "text that repeats: dictionary position")                                        \
    X(TEXT, 6, 8, "text that does not: heap position")

enum pb_type {
#define X(name, number, width, doc) PB_##name = number,
    PB_TYPES(X)
#undef X
};

/* Bytes of a cell; 0 for what is no type, as a file may say. */
static inline size_t pb_type_width(uint32_t type)
{
    switch (type) {
#define X(name, number, width, doc)                                                                \
    case number:                                                                                   \
        return width;
        PB_TYPES(X)
#undef X
    }
    return 0;
}

/* What stands for NULL in each type. */
#define PB_NULL_INT INT64_MIN /* TIME as well */
#define PB_NULL_REAL_BITS UINT64_C(0x7ff8000000504221)
#define PB_NULL_BOOL 0xff
#define PB_NULL_NAME 0
#define PB_NULL_TEXT 0

/* The sequence word of a slot. */
#define PB_SEQ_BUSY(n) (((uint64_t)(n) + 1) << 1)
#define PB_SEQ_DONE(n) (PB_SEQ_BUSY(n) | 1)

enum pb_ring_flags {
    PB_RING_KEEP = 1,   /* worth keeping after the process ended in good order */
    PB_RING_SHARED = 2, /* rows are about other processes: the table has its own pid column */
};

struct pb_ring_head {
    char magic[8];
    uint16_t major, minor;
    uint32_t head_size;   /* bytes of this struct as written */
    uint32_t column_size; /* bytes of one struct pb_ring_column as written */
    uint32_t ncolumns;
    uint64_t capacity; /* rows; a power of two */
    uint64_t file_size;
    uint64_t columns_at; /* offsets from the start of the file */
    uint64_t sequence_at;
    uint64_t dict_at, dict_size;
    uint64_t heap_at, heap_size; /* size: a power of two, or 0 */
    uint64_t created_ns;         /* since 1970 */
    uint32_t flags;
    uint32_t generation;     /* which ring of this table in this process, from 0 */
    char name[PB_RING_NAME]; /* "python.memory" */
    char doc[PB_RING_DOC];
    _Alignas(64) _Atomic uint64_t next; /* rows given out; of these some may be BUSY or dropped */
    _Atomic uint64_t heap_next;         /* heap bytes given out, ever growing */
    _Alignas(64) _Atomic uint64_t dropped; /* rows given out and not written */
    _Atomic uint64_t unnamed;              /* names that did not fit the dictionary */
    _Atomic uint32_t dict_used;            /* bytes given out; beyond dict_size: full */
    _Atomic uint32_t closed;               /* 1: the writer is done with it */
};

struct pb_ring_column {
    char name[PB_RING_COLUMN_NAME];
    char unit[PB_RING_COLUMN_UNIT]; /* "ms", "MB"; empty for none */
    uint32_t type;
    uint32_t width;
    uint64_t at; /* offset of slot 0 */
    char doc[PB_RING_COLUMN_DOC];
};

/*
 * Dictionary: entries one behind the other, each 8-byte aligned. A NAME cell is
 * the entry's offset from dict_at divided by 8, plus 1. Entries never change, but
 * the same text may have more than one. Space is taken by adding to dict_used;
 * an entry with hash 0 is still being written (or its writer was killed), and
 * where the head is all zero not even its length is known yet.
 * Heap: a circle of heap_size bytes. A TEXT cell is the ever growing position of
 * its entry plus 1; the entry is gone when heap_next has moved more than heap_size
 * beyond it. An entry never crosses the end of the circle: the writer skips. Its
 * hash begins with FNV's basis xor (position / 8), so that an entry that a late
 * writer put over a newer one is not taken for it.
 */
struct pb_ring_text {
    uint32_t hash; /* FNV-1a of the bytes, 1 if that is 0; stored last */
    uint32_t len;
    char bytes[];
};

/* docs/store-format.md has the same numbers; a test compares them. */
#define PB_AT(part, field, offset)                                                                 \
    _Static_assert(offsetof(struct pb_ring_##part, field) == (offset), "ring layout")

PB_AT(head, magic, 0);
PB_AT(head, major, 8);
PB_AT(head, minor, 10);
PB_AT(head, head_size, 12);
PB_AT(head, column_size, 16);
PB_AT(head, ncolumns, 20);
PB_AT(head, capacity, 24);
PB_AT(head, file_size, 32);
PB_AT(head, columns_at, 40);
PB_AT(head, sequence_at, 48);
PB_AT(head, dict_at, 56);
PB_AT(head, dict_size, 64);
PB_AT(head, heap_at, 72);
PB_AT(head, heap_size, 80);
PB_AT(head, created_ns, 88);
PB_AT(head, flags, 96);
PB_AT(head, generation, 100);
PB_AT(head, name, 104);
PB_AT(head, doc, 168);
PB_AT(head, next, 384);
PB_AT(head, heap_next, 392);
PB_AT(head, dropped, 448);
PB_AT(head, unnamed, 456);
PB_AT(head, dict_used, 464);
PB_AT(head, closed, 468);
PB_AT(column, name, 0);
PB_AT(column, unit, 40);
PB_AT(column, type, 56);
PB_AT(column, width, 60);
PB_AT(column, at, 64);
PB_AT(column, doc, 72);
PB_AT(text, hash, 0);
PB_AT(text, len, 4);
PB_AT(text, bytes, 8);
_Static_assert(sizeof(struct pb_ring_head) == 512, "ring layout");
_Static_assert(sizeof(struct pb_ring_column) == 192, "ring layout");

#endif
