/*
 * merge.h - one stack out of a Python and a native one.
 *
 * Owns: nothing; the order goes into the caller's arena.
 * Threads: any.
 * Fails: a pair of stacks that do not fit together gives false, and the caller
 * shows both parts; no frame is ever dropped.
 * Not here: names.
 *
 * Each C-level run of the evaluator (one native frame) carries a group of
 * Python frames: one frame to 3.10; from 3.11 on as many as called each other
 * without leaving the evaluator. Groups and runs are paired from the outermost
 * end, since a frame may be unlinked a moment before its run ends, but never
 * the other way round.
 */
#ifndef PB_STACK_MERGE_H
#define PB_STACK_MERGE_H

#include "host/text/arena.h"
#include "stack/native/native.h"
#include "stack/python/frames.h"

struct pb_merged {
    bool native;
    size_t index; /* into the native or the Python stack */
};

/* Innermost first. Shims do not appear; a paired run is replaced by its group. */
bool pb_merge(const struct pb_py_layout *py, const struct pb_py_raw_stack *python,
              const struct pb_native_stack *native, struct pb_arena *a, struct pb_merged **ret,
              size_t *ret_n);

#endif
