/*
 * crash.h - the record that a process leaves when it crashes, 512 bytes.
 *
 * Owns: nothing; the layout only.
 * Threads: the crashing thread writes it; the reader outside copies it while that thread waits.
 * Fails: never. Whoever reads it checks everything: another process wrote it.
 * Not here: writing it (agent/collectors/crash/), reading it (cli/crash/crash_take.h).
 *
 * It lies twice: in private memory, where the reader finds it by its address, in a child that
 * was just forked, too; and in the file `crash` of the process's folder, which stays when nobody
 * could be asked to read.
 */
#ifndef PB_STORE_CRASH_H
#define PB_STORE_CRASH_H

#include <stddef.h>
#include <stdint.h>

#define PB_CRASH_MAGIC "PBCRASH\n" /* 8 bytes, no terminator */
#define PB_CRASH_VERSION 1

enum pb_crash_kind { PB_CRASH_SIGNAL = 1, PB_CRASH_EXCEPTION = 2 };

enum {
    PB_CRASH_SIZE = 512,
    PB_CRASH_REGS = 34, /* as PTRACE_GETREGSET has them; 27 on x86_64, 34 on aarch64 */
    PB_CRASH_TEXT_MAX = 1 << 20,
    PB_CRASH_ACK_FD = 3, /* the reader writes a byte there when it is done */
    PB_CRASH_WAIT_MS = 500,
};

struct pb_crash_record {
    char magic[8];
    uint32_t version;
    uint32_t kind; /* enum pb_crash_kind; 0: nothing happened yet */
    int32_t pid, tid;
    int32_t signal, code; /* fields of siginfo */
    int32_t sender_pid, sender_uid; /* where another process sent it; else 0 */
    uint64_t address; /* address that was touched, or that of the instruction */
    int64_t wall_ns;
    uint64_t mono_ns;
    uint64_t text;    /* address of JSON about an exception; 0 for a signal */
    uint32_t text_len;
    uint32_t reg_bytes; /* bytes of `regs` that are valid */
    int64_t step, epoch; /* INT64_MIN: not known */
    uint32_t phase;      /* phase of the crashing thread; names as in the file `progress` */
    uint32_t module, collective, group;
    int64_t collective_seq;
    uint64_t regs[PB_CRASH_REGS];
    uint8_t reserved[PB_CRASH_SIZE - 120 - 8 * PB_CRASH_REGS];
};

_Static_assert(offsetof(struct pb_crash_record, address) == 40, "crash layout");
_Static_assert(offsetof(struct pb_crash_record, text) == 64, "crash layout");
_Static_assert(offsetof(struct pb_crash_record, step) == 80, "crash layout");
_Static_assert(offsetof(struct pb_crash_record, regs) == 120, "crash layout");
_Static_assert(sizeof(struct pb_crash_record) == PB_CRASH_SIZE, "crash layout");

#endif
