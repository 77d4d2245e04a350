/*
 * core_notes.h - what a core file says about its process: pid, threads, mapped files.
 *
 * Owns: nothing; lists go into the caller's arena, texts and registers stay in the notes' bytes.
 * Threads: any.
 * Fails: never; a note that makes no sense is left out. Every length is checked.
 * Not here: the memory itself (core.h).
 */
#ifndef PB_HOST_PROCESS_CORE_NOTES_H
#define PB_HOST_PROCESS_CORE_NOTES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/text/arena.h"

#define PB_CORE_NOTES_MAX (64u << 20)

struct pb_core_mapped {
    uint64_t start, end, offset;
    size_t file; /* number in paths */
};

struct pb_core_thread {
    pid_t tid;
    const void *registers; /* general ones, as the kernel has them (struct elf_prstatus) */
    size_t len;
};

struct pb_core_notes {
    pid_t pid;           /* 0: not told */
    const char *command; /* or NULL */
    struct pb_core_thread *threads; /* ascending */
    size_t nthreads;
    pid_t first;         /* thread that the kernel tells first: the one that ended the process */
    int signal;          /* signal that ended it; 0: none, as in a core that a debugger wrote */
    struct pb_core_mapped *mapped; /* ascending */
    size_t nmapped;
    const char **paths; /* each file once */
    size_t npaths;
};

/* bytes: in the caller's arena, with room for one byte behind. */
void pb_core_notes_parse(struct pb_core_notes *n, char *bytes, size_t len, struct pb_arena *a);
/* The mapping of a file that holds addr, or NULL. */
const struct pb_core_mapped *pb_core_notes_find(const struct pb_core_notes *n, uint64_t addr);

#endif
