/*
 * pages.h - memory straight from the kernel.
 *
 * Owns: nothing; the caller keeps pointer and size.
 * Threads: any.
 * Fails: NULL. The host's allocator is never touched, whatever state it is in.
 */
#ifndef PB_BASE_PAGES_H
#define PB_BASE_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

static inline void *pb_pages_get(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static inline void pb_pages_free(void *p, size_t size)
{
    if (p)
        munmap(p, size);
}

#endif
