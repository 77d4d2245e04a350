/*
 * join.h - one stack out of the parts that several interpreters have of it.
 *
 * Owns: nothing; the joined stack goes into the caller's arena.
 * Threads: any.
 * Fails: never; a part that is not complete makes the whole incomplete.
 * Not here: reading the parts (frames.h).
 *
 * A thread that calls into another interpreter has a thread state in each, and each state knows
 * its own frames only. What they leave on the C stack tells their order: from 3.12 on the marker of
 * each run of the evaluator, in 3.11 the record of the newest run. To 3.10 nothing tells, and the
 * caller's order counts.
 */
#ifndef PB_STACK_PYTHON_JOIN_H
#define PB_STACK_PYTHON_JOIN_H

#include "stack/python/frames.h"

struct pb_py_part {
    struct pb_py_raw_stack stack;
    uint64_t cframe; /* 3.11: where the newest run's record lies */
};

/* Frames of the result carry the index of their part. */
void pb_py_join(const struct pb_py_layout *py, struct pb_py_part *parts, size_t n,
                struct pb_arena *a, struct pb_py_raw_stack *ret);

#endif
