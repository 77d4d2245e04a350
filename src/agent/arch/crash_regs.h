/*
 * crash_regs.h - registers at a signal, in the order that PTRACE_GETREGSET has.
 *
 * Owns: nothing. Threads: any, also in a signal handler. Fails: never.
 * Not here: the record that they go into (store/crash.h).
 */
#ifndef PB_AGENT_ARCH_CRASH_REGS_H
#define PB_AGENT_ARCH_CRASH_REGS_H

#include <stdint.h>
#include <ucontext.h>

#include "store/crash.h"

/* Fills regs and returns how many bytes of it are valid. */
static inline uint32_t pb_crash_regs(const ucontext_t *uc, uint64_t regs[PB_CRASH_REGS])
{
#if defined(__x86_64__)
    static const signed char order[] = {
        REG_R15, REG_R14, REG_R13, REG_R12, REG_RBP, REG_RBX, REG_R11, REG_R10, REG_R9,
        REG_R8,  REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, -1,      REG_RIP, -1,
        REG_EFL, REG_RSP, -1,      -1,      -1,      -1,      -1,      -1,      -1,
    };
    const uint32_t n = sizeof order;

    for (uint32_t i = 0; i < n; i++)
        regs[i] = order[i] < 0 ? 0 : (uint64_t)uc->uc_mcontext.gregs[(int)order[i]];
    return n * 8;
#elif defined(__aarch64__)
    for (int i = 0; i < 31; i++)
        regs[i] = uc->uc_mcontext.regs[i];
    regs[31] = uc->uc_mcontext.sp;
    regs[32] = uc->uc_mcontext.pc;
    regs[33] = uc->uc_mcontext.pstate;
    return 34 * 8;
#endif
}

#endif
