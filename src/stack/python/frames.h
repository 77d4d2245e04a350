/*
 * frames.h - the Python frames of one thread, as raw copies.
 *
 * Owns: nothing; copies go into the caller's arena.
 * Threads: one per copy object.
 * Fails: a walk that meets memory that makes no sense ends with complete =
 * false; it never loops and never follows more than PB_PY_FRAMES_MAX frames.
 * Not here: whether the thread moved while it was read (capture.h), names and
 * lines (code.h).
 */
#ifndef PB_STACK_PYTHON_FRAMES_H
#define PB_STACK_PYTHON_FRAMES_H

#include "host/text/arena.h"
#include "host/process/mem.h"
#include "cpython/layout.h"

#define PB_PY_FRAMES_MAX 200000

struct pb_py_raw_frame {
    uint64_t addr, back, code;
    uint64_t instr; /* address of the instruction, or its index */
    int owner;
    int part;      /* index of its thread state where the thread has several (join.h) */
    int tlbc;      /* which copy of the bytecode this thread runs (free-threaded) */
    bool is_entry; /* 3.11: first frame of one C-level run of the evaluator */
    bool shim;     /* 3.12+: marks the start of such a run; not a Python function */
    const uint8_t *bytes; /* copy of the frame, fixed part first */
    size_t len;           /* bytes copied: local variables may be cut */
};

struct pb_py_raw_stack {
    struct pb_py_raw_frame *v; /* innermost first, shims included */
    size_t n;
    bool complete;
};

/* What is copied of a thread before its frames are followed. */
struct pb_py_copy {
    uint64_t tstate;
    uint64_t frame;  /* innermost frame, 0: no Python code is running */
    uint64_t cframe; /* 3.11, 3.12: the running evaluator's record on the C stack */
    uint64_t outer;  /* 3.11, 3.12: innermost frame of the evaluator that called it */
    bool nested;     /* there is such a caller */
    uint64_t chunk;  /* address of the newest data stack chunk; 0 to 3.10 */
    size_t chunk_len;
    uint8_t *chunk_bytes;
};

/* Reads the thread state and its newest data stack chunk. False: not readable. */
bool pb_py_copy_thread(struct pb_mem *mem, const struct pb_py_layout *py, uint64_t tstate,
                       struct pb_arena *a, struct pb_py_copy *ret);

/*
 * The same once more into the same memory, in one read when the thread still
 * has the same chunk and evaluator: quick, for a thread that is held.
 */
bool pb_py_copy_again(struct pb_mem *mem, const struct pb_py_layout *py, struct pb_arena *a,
                      struct pb_py_copy *copy);

/* Follows the frames from the copy; frames outside of it are read from mem. */
void pb_py_walk(struct pb_mem *mem, const struct pb_py_layout *py, const struct pb_py_copy *copy,
                struct pb_arena *a, struct pb_py_raw_stack *ret);

/*
 * Has a frame of the newest evaluator not run an instruction yet? While it is
 * being made it may already be the innermost one and still point to an older
 * caller, or what an older evaluator has left may seem to be called by it; a
 * thread that sleeps is never in that state. 3.11 and 3.12 only: from 3.13 on a
 * frame that is being made looks like one in its first instruction.
 */
bool pb_py_just_begun(const struct pb_py_layout *py, const struct pb_py_raw_stack *stack);

/*
 * Frames [*ret_from, *ret_to) lie between the innermost `head` and the outermost `tail` of those
 * that are shown, which shims are not.
 */
void pb_py_middle(const struct pb_py_raw_stack *stack, size_t head, size_t tail, size_t *ret_from,
                  size_t *ret_to);

/*
 * Copies the local variables' slots of the innermost `head` and the outermost
 * `tail` frames, for use after the thread went on.
 */
void pb_py_copy_locals(struct pb_mem *mem, const struct pb_py_layout *py, size_t head, size_t tail,
                       struct pb_arena *a, struct pb_py_raw_stack *stack);

#endif
