/*
 * ownmem.h - reading memory of this process that may not be there.
 *
 * Owns: nothing.
 * Threads: any; async-signal-safe.
 * Fails: a short count or -1, never a fault: the kernel reads.
 */
#ifndef PB_BASE_OWNMEM_H
#define PB_BASE_OWNMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes that were read; pid is this process's own, for who knows it. */
static inline ssize_t pb_ownmem_some(pid_t pid, void *to, uintptr_t from, size_t len)
{
    struct iovec here = {to, len}, there = {(void *)from, len};

    return syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0);
}

/* All of it, or false. */
static inline bool pb_ownmem_read(void *to, uintptr_t from, size_t len)
{
    return pb_ownmem_some(getpid(), to, from, len) == (ssize_t)len;
}

#endif
