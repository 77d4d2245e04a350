/*
 * danger.h - code that may hold a lock of the allocator, the loader or the thread list.
 *
 * Owns: its list of ranges, until pb_danger_finish.
 * Threads: one while it is filled, then any number of readers.
 * Fails: never.
 * Not here: which code that is (libc.h).
 */
#ifndef PB_INJECT_DANGER_H
#define PB_INJECT_DANGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb_code_range {
    uint64_t lo, hi;
};

/* Zeroed: empty. */
struct pb_danger {
    struct pb_code_range *v; /* after pb_danger_sort: in order, without overlaps */
    size_t n, cap;
};

void pb_danger_add(struct pb_danger *d, uint64_t lo, uint64_t hi);
void pb_danger_sort(struct pb_danger *d);
/* Is the address in one of them? After pb_danger_sort. */
bool pb_danger_has(const struct pb_danger *d, uint64_t pc);
void pb_danger_finish(struct pb_danger *d);

#endif
