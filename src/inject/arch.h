/*
 * arch.h - what hijacking a thread needs to know about a processor.
 *
 * Owns: nothing.
 * Threads: any.
 * Fails: a check that cannot be made counts as not safe.
 * Not here: when a thread may be hijacked (victim.h).
 */
#ifndef PB_INJECT_ARCH_H
#define PB_INJECT_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/process/mem.h"
#include "host/process/proc.h"
#include "inject/block.h"

/* The code that goes into the target; it begins with the stub. */
extern const unsigned char pb_code_start[], pb_code_end[];

/* Registers of a held thread as ptrace gives them, large enough for any architecture. */
struct pb_arch_regs {
    uint64_t raw[40];
    size_t size;
};

struct pb_arch_view {
    uint64_t pc, sp;
    bool in_call; /* a system call was interrupted and will be started again */
    long nr;      /* which one; not told by every architecture: -1 */
    uint32_t wake; /* PB_WAKE_* */
};

/* What is written below the victim's stack. */
struct pb_arch_frame {
    uint64_t addr;
    size_t size;
    uint8_t bytes[1024];
};

/*
 * A read from a socket with a time limit gives up with EINTR at a stop. True:
 * the registers were changed so that it starts again, and must be written back.
 */
bool pb_arch_restart_read(struct pb_arch_regs *regs);
/* w: what the thread slept in before it was held; NULL when it ran. */
bool pb_arch_view(const struct pb_arch_regs *regs, const struct pb_proc_wait *w,
                  struct pb_arch_view *ret);
/* Refusals that only this architecture has. */
int pb_arch_refuse(pid_t pid, struct pb_err *err);
/* Bytes of the vector registers' image in the arena; 0: this processor cannot be served. */
size_t pb_arch_save_size(void);
/*
 * Anything in this held thread that would not survive the stub? NULL: nothing.
 * Also tells a thread that the C library knows from one that it does not.
 */
const char *pb_arch_refuse_thread(pid_t tid, const struct pb_arch_regs *regs, struct pb_mem *mem);
/*
 * Where no register is free to jump through, the way back is an instruction
 * of its own: written into unused room behind the code. ret is 0 where none is
 * needed. False: the victim's code is out of reach.
 */
bool pb_arch_return_jump(int mem_fd, struct pb_mem *mem, const struct pb_arch_regs *regs,
                         uint64_t code, uint64_t room_end, uint64_t *ret);
/*
 * Builds the frame from the registers, the block's head and the signal mask,
 * and turns the registers into those that start the stub.
 */
void pb_arch_build(struct pb_arch_regs *regs, const struct pb_block *block, uint64_t mask,
                   uint64_t code, uint64_t return_jump, struct pb_arch_frame *ret);

/* What a stop does to a system call that a thread sleeps in. */
enum pb_arch_stop_effect {
    PB_STOP_SEEN,   /* the program would notice: leave it alone */
    PB_STOP_UNSEEN, /* it goes on as if nothing had been */
    PB_STOP_EINTR,  /* it ends early; CPython's own code starts it again with the time left */
};

/* from_python: CPython's own code made the call. ret_way: words for the report. */
enum pb_arch_stop_effect pb_arch_stop_effect(const struct pb_proc_wait *w, bool from_python,
                                             const char **ret_way);
/* May CPython's own code be woken from this call by EINTR? Not from waiting for a lock. */
bool pb_arch_may_end(long nr);
/* Ends the interrupted call with EINTR instead of starting it again. */
void pb_arch_end_call(struct pb_arch_regs *regs, const struct pb_proc_wait *w);

#endif
