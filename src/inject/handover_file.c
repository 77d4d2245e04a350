/*
 * The file in memory that the new thread made, from the number that the target says it has.
 *
 * Whoever shares the target's memory can put anything under that number: a file that the target
 * may name but not write (O_PATH), a pipe that nobody reads, a file of another user. So it is
 * never opened by its path: pidfd_getfd hands over the descriptor with the rights that the target
 * itself has, and nothing is asked of it that could wait before it has proven to be memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host/process/proc.h"
#include "inject/internal.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* Empty, without a name in any folder, made by the target's own user. */
static bool is_fresh(int fd, uid_t owner)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 && st.st_size == 0 &&
           st.st_uid == owner;
}

/* Only files in memory have seals, and asking for them touches nothing but memory. */
static bool is_memory(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) == O_RDWR &&
           fcntl(fd, F_GET_SEALS) >= 0;
}

/* The device that all files in memory are on, and nothing else; asked of one of our own. */
static bool on_memory_device(int fd)
{
    int own = (int)syscall(SYS_memfd_create, "probing", 1u /* MFD_CLOEXEC */);
    struct stat st;
    struct statx x;
    bool same;

    /* An empty mask: the device is known without a word to the file system behind it. */
    same = own >= 0 && fstat(own, &st) == 0 &&
           statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &x) == 0 &&
           makedev(x.stx_dev_major, x.stx_dev_minor) == st.st_dev;
    if (own >= 0)
        close(own);
    return same;
}

int pb_handover_pidfd(pid_t pid, int fd, uid_t owner)
{
    int process = (int)syscall(SYS_pidfd_open, pid, 0), own = -1, rc;

    if (process >= 0)
        own = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    rc = own < 0 ? -errno : own;
    if (process >= 0)
        close(process);
    if (own >= 0 && (!is_memory(own) || !on_memory_device(own) || !is_fresh(own, owner))) {
        close(own);
        rc = -EBADF;
    }
    return rc;
}

int pb_handover_reopen(pid_t pid, int fd, uid_t owner)
{
    char path[64];
    int at, own = -EBADF;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    at = open(path, O_PATH | O_CLOEXEC); /* which neither waits nor lets the file take notice */
    if (at < 0)
        return -errno;
    if (on_memory_device(at) && is_fresh(at, owner)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", at);
        own = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        own = own < 0 ? -errno : own;
    }
    close(at);
    return own;
}

int pb_handover_file(struct pb_injection *in, int fd, struct pb_err *err)
{
    struct pb_proc_status st;
    int own;

    if (pb_proc_status(&st, in->pid, err) < 0)
        return -1;
    own = pb_handover_pidfd(in->pid, fd, st.euid);
    /* A kernel before 5.6 does not know the call, and some containers do not let it through. */
    if (own == -ENOSYS || own == -EPERM)
        own = pb_handover_reopen(in->pid, fd, st.euid);
    if (own == -EBADF)
        return pb_err_set(err, PB_FAIL, "the library cannot be handed over: something else is in "
                                        "the place of its file in memory");
    if (own < 0)
        return pb_err_set(err, PB_FAIL, "the library cannot be handed over: %s", strerror(-own));
    return own;
}
