/*
 * mem.h - reading another process's memory.
 *
 * Owns: nothing of the target; a read never stops or changes it.
 * Threads: one reader per object.
 * Fails: a read that is not complete is a failure; nothing is half-filled
 * silently. Errors are counted, not described: readers decide what they mean.
 * Not here: meaning of the bytes.
 *
 * The source is a function, so that unit tests and fuzzers can serve images
 * of memory that they built, and stopped threads can be read from copies.
 */
#ifndef PB_HOST_PROCESS_MEM_H
#define PB_HOST_PROCESS_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

struct pb_mem_range {
    uint64_t addr;
    void *buf;
    size_t len;
};

struct pb_mem {
    /*
     * Fills the ranges in order; returns how many were filled completely
     * (stops at the first that was not).
     */
    size_t (*read)(struct pb_mem *mem, const struct pb_mem_range *v, size_t n);
    pid_t pid;
    void *arg;
};

/* Reads by process_vm_readv, many ranges in one call. */
void pb_mem_init_process(struct pb_mem *mem, pid_t pid);

static inline bool pb_mem_get(struct pb_mem *mem, uint64_t addr, void *buf, size_t len)
{
    struct pb_mem_range r = {addr, buf, len};

    return mem->read(mem, &r, 1) == 1;
}

static inline bool pb_mem_u64(struct pb_mem *mem, uint64_t addr, uint64_t *ret)
{
    return pb_mem_get(mem, addr, ret, sizeof *ret);
}

static inline bool pb_mem_u32(struct pb_mem *mem, uint64_t addr, uint32_t *ret)
{
    return pb_mem_get(mem, addr, ret, sizeof *ret);
}

/*
 * Reads as much from addr on as there is before the first unreadable page;
 * returns how many bytes that were. A mapping may hold such pages (guards
 * between the stacks of threads) without saying so.
 */
size_t pb_mem_get_start(struct pb_mem *mem, uint64_t addr, void *buf, size_t len);

/*
 * Reads a C string of at most cap - 1 bytes; false when the first byte cannot
 * be read. Never crosses into an unreadable page. Always terminated.
 */
bool pb_mem_string(struct pb_mem *mem, uint64_t addr, char *buf, size_t cap);

#endif
