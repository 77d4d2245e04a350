/*
 * native.h - C and C++ stacks from copied registers and stack bytes.
 *
 * Owns: the modules of one process (mapped files, parsed tables, symbols).
 * Threads: one user per object.
 * Fails: an unwind never fails as a whole: it returns the frames it is sure
 * of and says how it ended. Opening fails when /proc cannot be read.
 * Not here: stopping threads and copying (stack/capture.h), Python.
 *
 * Nothing runs in the target and nothing is read from it while unwinding,
 * except through `mem` for addresses outside the copied stack.
 */
#ifndef PB_STACK_NATIVE_NATIVE_H
#define PB_STACK_NATIVE_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/process/maps.h"
#include "host/process/mem.h"

/* Registers by DWARF number; x86_64 uses 0..16 (16 = return address), aarch64 0..32. */
#define PB_REGS_MAX 33

struct pb_regs {
    uint64_t r[PB_REGS_MAX];
    uint64_t known; /* bit i: r[i] holds a real value */
    uint64_t pc;
    uint64_t sp; /* also in r[] under the architecture's number */
};

struct pb_stack_copy {
    uint64_t base; /* address of bytes[0] */
    size_t len;
    const uint8_t *bytes;
};

enum pb_native_how {
    PB_NATIVE_START,    /* frame 0 */
    PB_NATIVE_CFI,      /* found by call frame information */
    PB_NATIVE_PROLOGUE, /* found by decoding the function's prologue */
    PB_NATIVE_FP,       /* by a frame pointer: code without a symbol, or a pointer recovered */
};

struct pb_native_frame {
    uint64_t pc;      /* address as found; a return address except in frame 0 and signal frames */
    uint64_t sp, cfa; /* stack of this frame: [sp, cfa) */
    bool is_signal;   /* the frame below was interrupted by a signal */
    enum pb_native_how how;
    /* filled by pb_native_symbolize */
    const char *func;    /* demangled and shortened, or NULL */
    const char *symbol;  /* raw symbol name, or NULL */
    uint64_t func_start; /* address of the function, 0 when unknown */
    const char *module;  /* path of the mapped file, "[vdso]", or NULL */
    uint64_t offset;     /* pc relative to the module's load address */
    const char *file;    /* source, from debug information, or NULL */
    int lineno;
};

enum pb_native_end {
    PB_NATIVE_COMPLETE,  /* reached the start of the thread */
    PB_NATIVE_NO_RULE,   /* code without unwind rule that could not be decoded */
    PB_NATIVE_NO_REG,    /* a rule needs a register that is not known: ask for a ptrace capture */
    PB_NATIVE_NO_MEMORY, /* stack bytes not readable */
    PB_NATIVE_TOO_DEEP,
    PB_NATIVE_LOOP,      /* stack pointer did not move on */
};

struct pb_native_stack {
    struct pb_native_frame *v;
    size_t n;
    enum pb_native_end end;
};

struct pb_native;

/* Reads the module table of the process; maps is borrowed and must live longer. */
int pb_native_create(struct pb_native **ret, pid_t pid, const struct pb_maps *maps,
                     struct pb_mem *mem, struct pb_err *err);
void pb_native_destroy(struct pb_native *n);

/* Unwinds one stack; frames go into the arena. max_frames bounds the depth (0: 65,536). */
void pb_native_unwind(struct pb_native *n, const struct pb_regs *regs,
                      const struct pb_stack_copy *stack, size_t max_frames,
                      struct pb_arena *a, struct pb_native_stack *ret);

/*
 * Names, modules and lines for the frames of any number of stacks, in one pass
 * over each module's symbol table. Strings go into the arena. Names only where
 * the pc lies inside the symbol's size; never the nearest neighbour.
 */
void pb_native_symbolize(struct pb_native *n, struct pb_native_stack *stacks, size_t nstacks,
                         bool lines, struct pb_arena *a);

/*
 * Is this frame in the function of that name, or in a part that the compiler
 * split off it (name.cold)? Known after pb_native_symbolize.
 */
bool pb_native_is_in(const struct pb_native_frame *f, const char *function);

/* Registers of a blocked thread for which only sp and pc are known. */
void pb_regs_from_sp_pc(struct pb_regs *regs, uint64_t sp, uint64_t pc);
/* Registers of a stopped thread (PTRACE_GETREGSET, NT_PRSTATUS); size in bytes. */
bool pb_regs_from_prstatus(struct pb_regs *regs, const void *gpr, size_t size);

/* C++ (and Rust legacy) names made readable, template arguments shortened past max; arena copy. */
char *pb_demangle(struct pb_arena *a, const char *symbol, size_t max);

#endif
