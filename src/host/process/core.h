/*
 * core.h - a core file as the memory of a process that has ended.
 *
 * Owns: the core file, and the files that were mapped, as far as they were needed.
 * Threads: one reader per object.
 * Fails: with a reason (no core file, another processor, cut off within its tables). Memory that
 * the core file does not have is read from the file that was mapped there, or it cannot be read.
 * Not here: meaning of the bytes.
 *
 * The kernel leaves most pages of program files out. A file of the same name may be another one by
 * now: its first page is compared with the one in the core, and a file that differs is not used.
 * Nor is one that the owner of the core file may not read, unless that is us.
 */
#ifndef PB_HOST_PROCESS_CORE_H
#define PB_HOST_PROCESS_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/process/core_notes.h"
#include "host/process/maps.h"
#include "host/process/mem.h"

/* A file that was mapped. */
struct pb_core_file {
    const char *path; /* as the process named it, or where a stand-in was found */
    int fd;           /* -1: not opened yet, or not to be had */
    bool unusable;    /* gone, replaced, or not readable */
    uint64_t inode;
    unsigned dev_major, dev_minor;
};

/* Where the bytes of one mapping are; the mapping of the same number in maps. */
struct pb_core_region {
    uint64_t offset, size; /* in the core file; the mapping may be larger than size */
    size_t file;           /* which file was mapped; SIZE_MAX: none */
};

struct pb_core {
    struct pb_mem mem;     /* reads the core; pid 0 */
    struct pb_maps maps;
    pid_t pid;             /* pid of the process that ended; 0: the core does not say */
    const char *command;   /* first 79 bytes of its command line, in arena; or "" */
    pid_t *tids;           /* its threads, ascending, in arena */
    const struct pb_core_thread *threads; /* parallel to tids */
    size_t ntids;
    pid_t first;           /* thread that ended it, or the one that a debugger looked at */
    int signal;            /* signal by which it ended; 0: none */
    uint64_t bytes;        /* bytes of memory in the core */
    const char *replaced;  /* a mapped file that is another one by now, or NULL */
    const char *missing;   /* a program file or library that is not here, or NULL */
    /* for core.c alone */
    struct pb_arena arena;
    int fd;
    const char *files_in;
    uid_t owner; /* of the core file */
    struct pb_core_region *regions;
    struct pb_core_file *files;
    size_t nfiles;
};

/*
 * Takes fd over. owner: owner of the file that was named, which an unpacked copy does not tell.
 * files_in: a folder with files of the machine that the core is from, or one such file, for those
 * that are not here; NULL for none. On failure there is nothing to close.
 */
int pb_core_open(struct pb_core *c, int fd, uid_t owner, const char *files_in,
                 struct pb_err *err);
void pb_core_close(struct pb_core *c);

#endif
