/*
 * state.h - what the agent keeps about the tables of the program itself.
 *
 * Owns: nothing itself; made with struct pb_self.
 * Threads: as said at each field; what is said to be made once never changes afterwards.
 * Fails: never.
 * Not here: what others may call (user.h).
 */
#ifndef PB_AGENT_USER_STATE_H
#define PB_AGENT_USER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/writer.h"

struct _object;

/* One table; in pages of its own, never freed, since objects of the program point to it. */
struct pb_user_table {
    struct pb_user_table *next;
    struct _object *object; /* what the program sees; held for good */
    struct pb_ring_spec spec;
    size_t first; /* column of the first value that is given: 1 behind our own timestamp */
    _Atomic(struct pb_ring *) ring; /* NULL: to be looked for, or not to be had */
    _Atomic unsigned failed;        /* the turn in which it was not to be had */
    _Atomic bool misfit;            /* a value did not fit, and that was said */
    char name[PB_RING_NAME], doc[PB_RING_DOC];
    struct pb_column_spec columns[PB_RING_COLUMNS_MAX];
    char names[PB_RING_COLUMNS_MAX][PB_RING_COLUMN_NAME];
};

/* What a thread of the program is in the midst of. */
struct pb_user_thread {
    struct pb_user_thread *next; /* in the list of free ones */
    int64_t tid;                 /* 0: to be asked for */
    int64_t span;                /* number of the innermost span, or PB_NULL_INT */
    int64_t depth;
};

struct pb_user {
    pthread_mutex_t lock; /* for the lists */
    struct pb_user_table *first;
    struct pb_user_thread *free_threads;
    struct pb_user_table spans, events;
    _Atomic int64_t last_span;
    _Atomic int64_t wall_offset;     /* time of day less the monotonic clock */
    _Atomic uint64_t offset_until_ns; /* when to ask for both again */
    /* made once, GIL held */
    bool ready;
    pthread_key_t key;
    size_t head; /* bytes of an object before what we put into it */
    struct _object *table_type, *span_type;
    struct _object *int_type, *float_type, *str_type, *yes, *no;
    _Atomic unsigned adopted; /* the turn in which another copy's module was told */
};

#endif
