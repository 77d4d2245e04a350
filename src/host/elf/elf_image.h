/*
 * elf_image.h - an ELF file put together again from a target's memory.
 *
 * Owns: the copy, through the struct pb_elf it fills.
 * Threads: any.
 * Fails: with a reason when the image cannot be read or is too large.
 * Not here: files (elf.h, maps.h). This is for the vdso, which has none, and
 * for files that are deleted or replaced and no longer to be opened.
 *
 * Only what the loader maps is there: code, unwind tables and dynamic
 * symbols, but no sections, full symbol table or debug information. Memory
 * that was written to (data) is as it is now, not as in the file.
 */
#ifndef PB_HOST_ELF_ELF_IMAGE_H
#define PB_HOST_ELF_ELF_IMAGE_H

#include "host/elf/elf.h"
#include "host/process/mem.h"

/* base: address of the ELF header in the target. pb_elf_close frees the copy. */
int pb_elf_from_process(struct pb_elf *elf, struct pb_mem *mem, uint64_t base, struct pb_err *err);

#endif
