/*
 * maps.h - the address space of a process, and its modules.
 *
 * Owns: a copy of /proc/PID/maps.
 * Threads: any number of readers.
 * Fails: with a reason when /proc cannot be read.
 * Not here: what is inside the mapped files (elf.h).
 */
#ifndef PB_HOST_PROCESS_MAPS_H
#define PB_HOST_PROCESS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct pb_map {
    uint64_t start, end, offset;
    uint64_t inode;
    unsigned dev_major, dev_minor;
    bool read, write, exec, shared;
    bool deleted;     /* the kernel says " (deleted)"; it is cut off from path */
    const char *path; /* "" for anonymous memory; "[stack]", "[vdso]" as they are */
};

struct pb_maps {
    struct pb_map *v;
    size_t n;
    char *text; /* backing store of the paths */
};

int pb_maps_read(struct pb_maps *maps, pid_t pid, struct pb_err *err);
/* The same from text (malloc'd, taken over, changed in place and freed by pb_maps_finish). */
int pb_maps_parse(struct pb_maps *maps, char *text, size_t len, struct pb_err *err);
void pb_maps_finish(struct pb_maps *maps);
/* False: code appeared or went away between the two. */
bool pb_maps_same_code(const struct pb_maps *x, const struct pb_maps *y);
/* The mapping that holds addr, or NULL. */
const struct pb_map *pb_maps_find(const struct pb_maps *maps, uint64_t addr);

/* The same for a stack pointer: the main thread's stack may have grown since. */
const struct pb_map *pb_maps_find_stack(const struct pb_maps *maps, uint64_t sp);

/*
 * Opens the file behind a mapping as the target sees it: through
 * /proc/PID/map_files or /proc/PID/root, /proc/PID/exe for a deleted
 * executable; pid 0: by its name on this machine (core.h). Returns a file
 * descriptor whose inode is the mapped one, or -1 (an upgraded-in-place file
 * is not the mapped one and is refused).
 */
int pb_maps_open_file(pid_t pid, const struct pb_map *map, struct pb_err *err);

#endif
