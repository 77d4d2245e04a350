/*
 * x86_64: registers in and out of a hijacked thread.
 *
 * What is written below the victim's stack pointer, low addresses first:
 *
 *     scratch | head of the block | mask r15 … rax flags rip | 128 bytes of red zone | rsp
 *
 * The stub pops the registers and leaves by `ret 128`: at no instant does
 * anything that it needs lie below its stack pointer while signals are open.
 */
#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include "host/process/proc.h"
#include "inject/arch.h"

/* Private to the kernel: what a system call returns when it is to be started again. */
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

#define RED_ZONE 128
/* Below the head of the block, for the stub while it has no stack of its own. */
#define SCRATCH 128
#define SYSCALL_BYTES 2
#define PLAIN_FLAGS 0x202
/* fs:16 holds the address of the thread's own control block. */
#define TCB_SELF 16
#define CPUID_XSAVE 0xd

struct saved {
    uint64_t mask;
    uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
    uint64_t flags, rip;
};

enum kind {
    UNSEEN, /* the kernel starts it again by itself, the time left included */
    SOCKET, /* the same, unless the socket has a time limit */
    EPOLL,  /* the stop makes it start again (stack/stop/stop.h), but with all of its time */
};

static const struct {
    long nr;
    enum kind kind;
    const char *way;
} calls[] = {
    {SYS_futex, UNSEEN, "hijacked a thread blocked in futex"},
    {SYS_poll, UNSEEN, "hijacked a thread blocked in poll"},
    {SYS_ppoll, UNSEEN, "hijacked a thread blocked in ppoll"},
    {SYS_select, UNSEEN, "hijacked a thread blocked in select"},
    {SYS_pselect6, UNSEEN, "hijacked a thread blocked in pselect6"},
    {SYS_nanosleep, UNSEEN, "hijacked a thread blocked in nanosleep"},
    {SYS_clock_nanosleep, UNSEEN, "hijacked a thread blocked in clock_nanosleep"},
    {SYS_pause, UNSEEN, "hijacked a thread blocked in pause"},
    {SYS_wait4, UNSEEN, "hijacked a thread blocked in wait4"},
    {SYS_waitid, UNSEEN, "hijacked a thread blocked in waitid"},
    {SYS_read, SOCKET, "hijacked a thread blocked in read"},
    {SYS_recvfrom, SOCKET, "hijacked a thread blocked in recvfrom"},
    {SYS_recvmsg, SOCKET, "hijacked a thread blocked in recvmsg"},
    {SYS_accept, SOCKET, "hijacked a thread blocked in accept"},
    {SYS_accept4, SOCKET, "hijacked a thread blocked in accept4"},
    {SYS_epoll_wait, EPOLL, "hijacked a thread blocked in epoll_wait"},
    {SYS_epoll_pwait, EPOLL, "hijacked a thread blocked in epoll_pwait"},
};

#define NCALLS (sizeof calls / sizeof *calls)

enum pb_arch_stop_effect pb_arch_stop_effect(const struct pb_proc_wait *w, bool from_python,
                                             const char **ret_way)
{
    for (size_t i = 0; i < NCALLS; i++) {
        if (calls[i].nr != w->nr)
            continue;
        *ret_way = calls[i].way;
        if (calls[i].kind != EPOLL || (int32_t)w->args[3] < 0)
            return PB_STOP_UNSEEN;
        return from_python ? PB_STOP_EINTR : PB_STOP_SEEN;
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

/* A read that a time limit ended: the stop made it start again with all of its time. */
static bool had_time_limit(const struct user_regs_struct *r)
{
    for (size_t i = 0; i < NCALLS; i++)
        if (calls[i].nr == (long)r->orig_rax && calls[i].kind == SOCKET)
            return (long)r->rax == -ERESTARTNOHAND;
    return false;
}

static bool get(const struct pb_arch_regs *regs, struct user_regs_struct *ret)
{
    if (regs->size != sizeof *ret)
        return false;
    memcpy(ret, regs->raw, sizeof *ret);
    return true;
}

/* What the kernel would do on the way back to the program, if we let it. */
static uint32_t apply_restart(struct user_regs_struct *r)
{
    if ((long)r->orig_rax < 0)
        return PB_WAKE_NEVER;
    switch (-(long)r->rax) {
    case ERESTARTSYS:
        r->rax = r->orig_rax;
        r->rip -= SYSCALL_BYTES;
        return PB_WAKE_RESTART;
    case ERESTARTNOINTR:
        r->rax = r->orig_rax;
        r->rip -= SYSCALL_BYTES;
        return PB_WAKE_NEVER;
    case ERESTARTNOHAND:
        r->rax = r->orig_rax;
        r->rip -= SYSCALL_BYTES;
        return PB_WAKE_ALWAYS;
    case ERESTART_RESTARTBLOCK:
        r->rax = SYS_restart_syscall;
        r->rip -= SYSCALL_BYTES;
        return PB_WAKE_ALWAYS;
    }
    return PB_WAKE_NEVER;
}

bool pb_arch_restart_read(struct pb_arch_regs *regs)
{
    struct user_regs_struct r;

    if (!get(regs, &r) || (long)r.orig_rax != SYS_read || (long)r.rax != -EINTR)
        return false;
    r.rax = (unsigned long)-ERESTARTNOHAND;
    memcpy(regs->raw, &r, sizeof r);
    return true;
}

void pb_arch_end_call(struct pb_arch_regs *regs, const struct pb_proc_wait *w)
{
    struct user_regs_struct r;

    (void)w;
    if (!get(regs, &r))
        return;
    r.rax = (unsigned long)-EINTR;
    r.orig_rax = (unsigned long)-1;
    memcpy(regs->raw, &r, sizeof r);
}

bool pb_arch_view(const struct pb_arch_regs *regs, const struct pb_proc_wait *w,
                  struct pb_arch_view *ret)
{
    struct user_regs_struct r;

    (void)w;
    if (!get(regs, &r))
        return false;
    *ret = (struct pb_arch_view){.pc = r.rip, .sp = r.rsp, .nr = (long)r.orig_rax};
    ret->wake = apply_restart(&r);
    ret->in_call = r.rip != ret->pc;
    return true;
}

int pb_arch_refuse(pid_t pid, struct pb_err *err)
{
    struct pb_arena a = PB_ARENA_INIT;
    size_t len;
    char *status = pb_proc_read(pid, "status", &a, &len);
    char *line = status ? strstr(status, "x86_Thread_features:") : NULL;
    char *end = line ? strchr(line, '\n') : NULL;
    char *found = line ? strstr(line, "shstk") : NULL;
    bool shadow = found && (!end || found < end);

    pb_arena_finish(&a);
    if (shadow)
        return pb_err_set(err, PB_FAIL, "it runs with a shadow stack, which injection would break");
    if (!pb_arch_save_size())
        return pb_err_set(err, PB_FAIL, "this processor has no XSAVE");
    return 0;
}

size_t pb_arch_save_size(void)
{
    unsigned a, b, c, d;

    /* Leaf 1, ecx bit 27: the kernel has switched XSAVE on. */
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27)) ||
        !__get_cpuid_count(CPUID_XSAVE, 0, &a, &b, &c, &d))
        return 0;
    return b;
}

const char *pb_arch_refuse_thread(pid_t tid, const struct pb_arch_regs *regs, struct pb_mem *mem)
{
    struct user_regs_struct r;
    uint64_t self;

    (void)tid;
    if (!get(regs, &r))
        return "its registers cannot be read";
    if (had_time_limit(&r))
        return "its socket has a time limit";
    if (r.cs != 0x33)
        return "it runs 32-bit code";
    if (!pb_mem_u64(mem, r.fs_base + TCB_SELF, &self) || self != r.fs_base)
        return "it is no thread of the C library";
    return NULL;
}

/* `ret` finds its way back on the stack. */
bool pb_arch_return_jump(int mem_fd, struct pb_mem *mem, const struct pb_arch_regs *regs,
                         uint64_t code, uint64_t room_end, uint64_t *ret)
{
    (void)mem_fd;
    (void)mem;
    (void)regs;
    (void)code;
    (void)room_end;
    *ret = 0;
    return true;
}

void pb_arch_build(struct pb_arch_regs *regs, const struct pb_block *block, uint64_t mask,
                   uint64_t code, uint64_t return_jump, struct pb_arch_frame *ret)
{
    struct pb_block head = *block;
    struct user_regs_struct r;
    struct saved saved;
    uint64_t at, head_at;

    (void)return_jump;
    memcpy(&r, regs->raw, sizeof r);
    head.wake = apply_restart(&r);
    saved = (struct saved){
        mask,  r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11,    r.r10,
        r.r9,  r.r8,  r.rdi, r.rsi, r.rdx, r.rcx, r.rax, r.eflags, r.rip,
    };
    at = r.rsp - RED_ZONE - sizeof saved;
    head_at = (at - PB_B_HEAD) & ~(uint64_t)15;
    ret->addr = head_at - SCRATCH;
    ret->size = at + sizeof saved - ret->addr;
    memset(ret->bytes, 0, ret->size);
    memcpy(ret->bytes + SCRATCH, &head, PB_B_HEAD);
    memcpy(ret->bytes + (at - ret->addr), &saved, sizeof saved);
    r.rsp = head_at;
    r.rbx = at;
    r.rip = code;
    r.eflags = PLAIN_FLAGS;
    r.orig_rax = (unsigned long)-1;
    memcpy(regs->raw, &r, sizeof r);
}
