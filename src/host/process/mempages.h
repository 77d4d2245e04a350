/*
 * mempages.h - another process's memory, page by page, each read once.
 *
 * Owns: copies of the pages it was asked for, up to a number; then it begins anew.
 * Threads: one.
 * Fails: as the source does; what no page can be had for is asked of the source itself.
 * Not here: when a copy is too old. It lives as long as this object, so one is made for a
 * short piece of work on memory that need not be looked at again.
 */
#ifndef PB_HOST_PROCESS_MEMPAGES_H
#define PB_HOST_PROCESS_MEMPAGES_H

#include "host/text/arena.h"
#include "host/process/mem.h"

#define PB_MEM_PAGE 4096
#define PB_MEM_PAGES_MAX 1024
#define PB_MEM_PAGES_SLOTS (2 * PB_MEM_PAGES_MAX)

struct pb_mem_pages {
    struct pb_mem mem; /* what readers use */
    struct pb_mem *source;
    struct pb_arena arena;
    size_t n;
    uint8_t *slots[PB_MEM_PAGES_SLOTS]; /* each an address, then the page's bytes */
};

void pb_mem_pages_init(struct pb_mem_pages *p, struct pb_mem *source);
void pb_mem_pages_finish(struct pb_mem_pages *p);

#endif
