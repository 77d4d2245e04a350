/*
 * aarch64: registers in and out of a hijacked thread.
 *
 * What is written below the victim's stack pointer, low addresses first:
 *
 *     scratch | head of the block | x0 … x30 nzcv mask way-back | sp
 *
 * A branch needs a register or a fixed distance. All registers are the
 * victim's at the end, so each injection gets its own way back: a landing
 * pad, the load that restores x0, x1 and sp at once, and a branch to where
 * the victim was, written into unused room behind the code.
 *
 * The kernel backs the program counter up to a call that is to be started
 * again before it reports the stop, and completes the restart of a timed call
 * only if the thread goes on there. Hence only calls count as unseen that are
 * started again from their arguments alone.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "inject/arch.h"

#define SVC_BYTES 4
#define SCRATCH 128
#define SAVE_BYTES (32 * 16 + 16)
#define BTYPE_MASK 0xc00ull
#define NZCV_MASK 0xf0000000ull
#define REACH (127ll << 20)

/* Instructions of the way back. */
#define BTI_J 0xd503249fu
#define LOAD_BACK 0xa8d107e0u /* ldp x0, x1, [sp], #272 */
#define BRANCH 0x14000000u
#define BRANCH_MASK 0x03ffffffu

#define FUTEX_CMD_MASK 127
#define FUTEX_WAIT 0
#define FUTEX_WAIT_BITSET 9
#define TIMER_ABSTIME_FLAG 1

#define NOTE_TLS 0x401
#define NOTE_SVE 0x405
#define NOTE_SSVE 0x40b
#define SVE_REGS_FLAG 1

struct gpr {
    uint64_t x[31], sp, pc, pstate;
};

struct saved {
    uint64_t x[31], nzcv, mask, return_jump;
};

_Static_assert(sizeof(struct saved) == 272, "what LOAD_BACK adds to sp");

enum kind { PLAIN, FUTEX, CLOCK, EPOLL };

static const struct {
    long nr;
    enum kind kind;
    const char *way;
} calls[] = {
    {SYS_futex, FUTEX, "hijacked a thread blocked in futex"},
    {SYS_ppoll, PLAIN, "hijacked a thread blocked in ppoll"},
    {SYS_pselect6, PLAIN, "hijacked a thread blocked in pselect6"},
    {SYS_clock_nanosleep, CLOCK, "hijacked a thread blocked in clock_nanosleep"},
    {SYS_read, PLAIN, "hijacked a thread blocked in read"},
    {SYS_wait4, PLAIN, "hijacked a thread blocked in wait4"},
    {SYS_waitid, PLAIN, "hijacked a thread blocked in waitid"},
    {SYS_epoll_pwait, EPOLL, "hijacked a thread blocked in epoll_pwait"},
};

#define NCALLS (sizeof calls / sizeof *calls)

static bool starts_again(enum kind kind, const struct pb_proc_wait *w)
{
    switch (kind) {
    case PLAIN:
        return true;
    case FUTEX:
        switch (w->args[1] & FUTEX_CMD_MASK) {
        case FUTEX_WAIT:
            return w->args[3] == 0; /* else it would wait for its whole time again */
        case FUTEX_WAIT_BITSET:
            return true; /* until a point in time */
        default:
            return false;
        }
    case CLOCK:
        return (w->args[1] & TIMER_ABSTIME_FLAG) != 0;
    case EPOLL:
        return false;
    }
    return false;
}

enum pb_arch_stop_effect pb_arch_stop_effect(const struct pb_proc_wait *w, bool from_python,
                                             const char **ret_way)
{
    for (size_t i = 0; i < NCALLS; i++) {
        if (calls[i].nr != w->nr)
            continue;
        *ret_way = calls[i].way;
        if (starts_again(calls[i].kind, w))
            return PB_STOP_UNSEEN;
        return calls[i].kind == EPOLL && from_python ? PB_STOP_EINTR : PB_STOP_SEEN;
    }
    return PB_STOP_SEEN;
}

bool pb_arch_may_end(long nr)
{
    for (size_t i = 0; i < NCALLS; i++)
        if (calls[i].nr == nr)
            return nr != SYS_futex;
    return false;
}

static bool get(const struct pb_arch_regs *regs, struct gpr *ret)
{
    if (regs->size != sizeof *ret)
        return false;
    memcpy(ret, regs->raw, sizeof *ret);
    return true;
}

bool pb_arch_restart_read(struct pb_arch_regs *regs)
{
    (void)regs;
    return false;
}

bool pb_arch_view(const struct pb_arch_regs *regs, const struct pb_proc_wait *w,
                  struct pb_arch_view *ret)
{
    struct gpr r;

    if (!get(regs, &r))
        return false;
    *ret = (struct pb_arch_view){.pc = r.pc, .sp = r.sp, .nr = -1};
    if (w && r.pc + SVC_BYTES == w->pc) {
        ret->in_call = true;
        ret->pc = w->pc;
    }
    return true;
}

void pb_arch_end_call(struct pb_arch_regs *regs, const struct pb_proc_wait *w)
{
    struct gpr r;

    if (!get(regs, &r) || r.pc + SVC_BYTES != w->pc)
        return;
    r.pc = w->pc;
    r.x[0] = (uint64_t)-EINTR;
    memcpy(regs->raw, &r, sizeof r);
}

int pb_arch_refuse(pid_t pid, struct pb_err *err)
{
    (void)pid;
    (void)err;
    return 0;
}

size_t pb_arch_save_size(void)
{
    return SAVE_BYTES;
}

/* Are wide vectors live? A system call of the stub would drop them. */
static bool uses_wide_vectors(pid_t tid, int note)
{
    struct {
        uint32_t size, max_size;
        uint16_t vl, max_vl, flags, reserved;
    } head = {0};
    struct iovec iov = {&head, sizeof head};

    return ptrace(PTRACE_GETREGSET, tid, (void *)(long)note, &iov) == 0 &&
           iov.iov_len == sizeof head && (head.flags & SVE_REGS_FLAG);
}

const char *pb_arch_refuse_thread(pid_t tid, const struct pb_arch_regs *regs, struct pb_mem *mem)
{
    uint64_t tls = 0, dtv = 0;
    struct iovec iov = {&tls, sizeof tls};
    struct gpr r;

    if (!get(regs, &r))
        return "its registers cannot be read";
    if (r.sp % 16)
        return "its stack is not aligned";
    if (uses_wide_vectors(tid, NOTE_SVE) || uses_wide_vectors(tid, NOTE_SSVE))
        return "it is in the middle of SVE or SME code";
    if (ptrace(PTRACE_GETREGSET, tid, (void *)(long)NOTE_TLS, &iov) < 0 || !tls ||
        !pb_mem_u64(mem, tls, &dtv) || !dtv)
        return "it is no thread of the C library";
    return NULL;
}

/* The first unused 16 bytes behind the code. */
static uint64_t unused(struct pb_mem *mem, uint64_t code, uint64_t room_end)
{
    uint64_t at = code + (uint64_t)(pb_code_end - pb_code_start), words[2];

    for (; at + sizeof words <= room_end; at += sizeof words)
        if (pb_mem_get(mem, at, words, sizeof words) && words[0] == 0 && words[1] == 0)
            return at;
    return 0;
}

bool pb_arch_return_jump(int mem_fd, struct pb_mem *mem, const struct pb_arch_regs *regs,
                         uint64_t code, uint64_t room_end, uint64_t *ret)
{
    uint64_t at = unused(mem, code, room_end);
    int64_t distance;
    struct gpr r;
    uint32_t words[4] = {BTI_J, LOAD_BACK, 0, 0};

    if (!at || !get(regs, &r))
        return false;
    distance = (int64_t)(r.pc - (at + 8));
    if (distance > REACH || distance < -REACH || distance % 4)
        return false;
    words[2] = BRANCH | ((uint32_t)(distance / 4) & BRANCH_MASK);
    *ret = at;
    return pwrite(mem_fd, words, sizeof words, (off_t)at) == (ssize_t)sizeof words;
}

void pb_arch_build(struct pb_arch_regs *regs, const struct pb_block *block, uint64_t mask,
                   uint64_t code, uint64_t return_jump, struct pb_arch_frame *ret)
{
    struct saved saved = {.mask = mask, .return_jump = return_jump};
    struct gpr r;
    uint64_t at, head_at;

    memcpy(&r, regs->raw, sizeof r);
    memcpy(saved.x, r.x, sizeof saved.x);
    saved.nzcv = r.pstate & NZCV_MASK;
    at = r.sp - sizeof saved;
    head_at = (at - PB_B_HEAD) & ~(uint64_t)15;
    ret->addr = head_at - SCRATCH;
    ret->size = r.sp - ret->addr;
    memset(ret->bytes, 0, ret->size);
    memcpy(ret->bytes + SCRATCH, block, PB_B_HEAD);
    memcpy(ret->bytes + (at - ret->addr), &saved, sizeof saved);
    r.sp = head_at;
    r.x[19] = at;
    r.pc = code;
    r.pstate &= ~BTYPE_MASK;
    memcpy(regs->raw, &r, sizeof r);
}
