#include "host/process/exits.h"

#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "host/os/signals.h"

/* Of the kernel, from 6.15 on; older headers do not have it. */
struct ended {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define INFO_EXIT (UINT64_C(1) << 3)
#define GET_INFO _IOWR(0xFF, 11, struct ended)

_Static_assert(sizeof(struct ended) == 64, "as the kernel has it");

int pb_exit_code(int pidfd)
{
    struct ended e = {.mask = INFO_EXIT};

    return pidfd >= 0 && ioctl(pidfd, GET_INFO, &e) == 0 && e.mask & INFO_EXIT ? e.exit_code : -1;
}

const char *pb_exit_text(int code, struct pb_arena *a)
{
    if (code < 0)
        return NULL;
    return WIFSIGNALED(code) ? pb_signal_name(WTERMSIG(code), a)
                             : pb_arena_printf(a, "exit %d", WEXITSTATUS(code));
}
