/*
 * x86_64: a system call interrupted by a stop.
 *
 * At the stop the kernel has already put the call's result into rax. For most
 * calls that is one of its private restart codes and the call goes on unseen.
 * A few end with EINTR instead. The kernel looks at rax again after the stop,
 * so a restart code put there now has the usual meaning: start over, or EINTR
 * if a signal handler runs first.
 */
#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "stack/stop/stop.h"

#define ERESTARTNOHAND 514 /* kernel-internal, not in errno.h */

static bool gives_up_with_eintr(long nr)
{
    switch (nr) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
        return true;
    }
    return false;
}

void pb_arch_restart_interrupted(pid_t tid)
{
    struct user_regs_struct regs;
    struct iovec iov = {&regs, sizeof regs};

    if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) < 0)
        return;
    if ((long)regs.orig_rax < 0 || (long)regs.rax != -EINTR ||
        !gives_up_with_eintr((long)regs.orig_rax))
        return;
    regs.rax = (unsigned long)-ERESTARTNOHAND;
    ptrace(PTRACE_SETREGSET, tid, (void *)NT_PRSTATUS, &iov);
}
