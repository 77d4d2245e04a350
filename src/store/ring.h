/*
 * ring.h - the inside of a writer: struct pb_ring. For create.c and writer.c only.
 *
 * Owns: see writer.h.
 * Threads: see writer.h; fields without _Atomic never change after pb_ring_create.
 * Fails: never.
 * Not here: anything that others may use (writer.h).
 *
 * The file is shared with readers, which cannot write to it; but a process of the same user
 * could. So places and sizes come from here, and what comes from the file (the counters) is kept
 * within them.
 */
#ifndef PB_STORE_RING_H
#define PB_STORE_RING_H

#include "store/writer.h"

enum {
    PB_RING_ROWS_MIN = 64,
    PB_RING_NAME_LONGEST = 1024, /* bytes of one dictionary entry; the rest is cut off */
};

/* A column as append sees it. */
struct pb_ring_lane {
    void *at;    /* slot 0 */
    size_t cell; /* offset in the array of cells */
};

struct pb_ring {
    _Atomic uint32_t live; /* 0: appends turn into nothing */
    struct pb_ring_head *head;
    _Atomic uint64_t *sequence;
    uint64_t mask; /* capacity - 1 */
    /* Sorted by kind, so that append has no choice to make: n8 wide ones, names, bools, texts. */
    size_t n8, nnames, nbools, ntexts;
    struct pb_ring_lane lanes[PB_RING_COLUMNS_MAX];
    unsigned char *dict, *heap;
    uint64_t dict_size, heap_size;
    /* Hash in the upper half, NAME in the lower; 0: free. At most half of it is ever used. */
    _Atomic uint64_t *index;
    uint64_t index_mask;
    size_t file_size, own_size;
    _Atomic uint64_t rows; /* given out, set when it is retired */
};

#endif
