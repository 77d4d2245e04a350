#include <asm/unistd.h>
#include <stddef.h>

#include "host/process/proc.h"

/* Two names may share a number on some architectures; either will do. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

static const char *const names[] = {
#include "syscalls.inc"
};

#pragma GCC diagnostic pop

const char *pb_proc_syscall_name(long nr)
{
    if (nr < 0 || (size_t)nr >= sizeof names / sizeof *names)
        return NULL;
    return names[nr];
}
