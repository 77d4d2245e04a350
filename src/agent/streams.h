/*
 * streams.h - what evaluated code sees as sys.stdin, sys.stdout and sys.stderr.
 *
 * Owns: which threads evaluate, and what they have put in place of a stream.
 * Threads: GIL held, or free-threaded; a slot belongs to the thread that claimed it.
 * Fails: a function called from Python raises.
 * Not here: the streams that stand in, and when they are seen (glue.py).
 *
 * The program's own sys.stdout is never replaced: print() of another thread uses it without owning
 * it, and a program may keep, compare or replace it at any time. Instead the module sys gets a
 * class of its own for the time of an evaluation, whose attributes answer by thread, and print and
 * input, which do not ask sys for its attributes, get functions in front of them. For every other
 * thread all of it passes on to what was there.
 */
#ifndef PB_AGENT_STREAMS_H
#define PB_AGENT_STREAMS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "agent/py/api.h"

struct pb_self;

enum { PB_STREAMS = 3, PB_STREAM_SLOTS = 32 };

struct pb_streams {
    _Atomic int busy; /* slots in use */
    struct pb_stream_slot {
        _Atomic unsigned long ident;     /* the evaluating thread; 0: free */
        struct _object *own[PB_STREAMS]; /* what the code put there itself; NULL: nothing */
    } slots[PB_STREAM_SLOTS];
    struct _object *stand_in[PB_STREAMS]; /* kept for ever */
    struct _object *sys;                  /* the module, kept for ever */
};

/* Puts the functions that glue.py needs into its dictionary. GIL held. */
bool pb_streams_add(struct pb_self *self, struct _object *dict);
/* In a forked child, which only the forking thread lives on in. */
void pb_streams_after_fork(struct pb_self *self);

#endif
