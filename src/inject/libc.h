/*
 * libc.h - the target's C library: functions to call, and code not to interrupt.
 *
 * Owns: its list of ranges, until pb_libc_finish.
 * Threads: any number of readers.
 * Fails: with a reason (static program, no glibc).
 * Not here: where threads are (victim.h).
 *
 * Everything comes from the target's own files, read through its root, and
 * from the loader's list of what is loaded, read from its memory.
 */
#ifndef PB_INJECT_LIBC_H
#define PB_INJECT_LIBC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/process/maps.h"
#include "host/process/mem.h"
#include "inject/danger.h"

struct pb_libc {
    uint64_t pthread_create, attr_init, attr_setstacksize, attr_setdetachstate;
    uint64_t errno_location;
    uint64_t dlopen, dlsym, dlerror;
    uint64_t dlmode;
    struct pb_code_range text;    /* code of the C library itself */
    struct pb_code_range loader;  /* code of ld.so */
    struct pb_danger danger; /* code that is not to be interrupted */
};

int pb_libc_find(struct pb_libc *c, pid_t pid, const struct pb_maps *maps, struct pb_mem *mem,
                 struct pb_err *err);
void pb_libc_finish(struct pb_libc *c);

#endif
