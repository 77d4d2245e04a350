/* Real ELF images that every process has at hand, as seeds: the vdso, libc, the program itself. */
#ifndef PB_FUZZ_REAL_ELF_H
#define PB_FUZZ_REAL_ELF_H

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "host/elf/elf.h"
#include "host/process/maps.h"

/* Copies image `index` (its beginning, where it is large); returns its size, 0 when none. */
static inline size_t real_elf(int index, uint8_t *buf, size_t cap)
{
    const void *place[] = {(void *)getauxval(AT_SYSINFO_EHDR), (void *)(uintptr_t)getppid,
                           (void *)(uintptr_t)pb_elf_open_fd};
    struct pb_maps maps;
    const struct pb_map *m = NULL;
    size_t size = 0;
    ssize_t got;
    int fd;

    if (index < 0 || index > 2 || pb_maps_read(&maps, getpid(), NULL) < 0)
        return 0;
    if (place[index])
        m = pb_maps_find(&maps, (uintptr_t)place[index]);
    if (m && index == 0) {
        size = m->end - m->start < cap ? m->end - m->start : cap;
        memcpy(buf, (const void *)(uintptr_t)m->start, size);
    } else if (m && (fd = pb_maps_open_file(getpid(), m, NULL)) >= 0) {
        got = read(fd, buf, cap);
        size = got > 0 ? (size_t)got : 0;
        close(fd);
    }
    pb_maps_finish(&maps);
    return size;
}

#endif
