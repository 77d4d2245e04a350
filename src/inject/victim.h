/*
 * victim.h - a thread that may be borrowed for an instant, and the proof.
 *
 * Owns: nothing; copies go into the injection's arena.
 * Threads: one.
 * Fails: with words for why a thread is not safe; the caller tries another.
 * Not here: stopping threads (hijack.h).
 *
 * The stub calls pthread_create, which takes locks of the allocator, the
 * loader and the list of threads. A victim must be in none of these: no
 * return address on its stack may lie in such code. A stale word is told from
 * a frame by a real unwind.
 */
#ifndef PB_INJECT_VICTIM_H
#define PB_INJECT_VICTIM_H

#include "host/process/proc.h"
#include "inject/internal.h"

struct pb_victim {
    pid_t tid;
    bool blocked; /* asleep in a system call */
    bool from_python; /* a system call that CPython's own code made */
    bool eintr;   /* a system call that will be ended early, as its caller expects */
    bool unsure;  /* only its registers can tell: judge again when it is held */
    const char *way;
    struct pb_proc_wait wait;
    struct pb_stack_copy stack;
};

/*
 * Reads a thread without stopping it. NULL: blocked, and proven to be safe.
 * Else why not; v->blocked tells whether it sleeps at all.
 */
const char *pb_victim_look(struct pb_injection *in, pid_t tid, struct pb_victim *v);
/*
 * Copies what a thread has on its stack; false when it cannot be read. held:
 * the thread is stopped, so the copy goes without allocation into the injection's buffer, and
 * lasts until the next such copy.
 */
bool pb_victim_copy(struct pb_injection *in, uint64_t sp, bool held, struct pb_stack_copy *ret);
/*
 * The proof from registers and copied stack. NULL: safe. ret_caller, when not
 * NULL, gets the innermost code address outside of the C library.
 */
const char *pb_victim_judge(struct pb_injection *in, const struct pb_regs *regs,
                            const struct pb_stack_copy *stack, bool blocked,
                            uint64_t *ret_caller);
/* The answer when a frame may have been missed for want of a register. */
extern const char pb_victim_unsure[];
/* Is this address in the interpreter, or in one of its modules that retry by themselves? */
bool pb_victim_is_python(const struct pb_injection *in, uint64_t pc);

#endif
