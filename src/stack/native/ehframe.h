/*
 * ehframe.h - finding the call frame information of an address.
 *
 * Owns: an index of FDEs, only for files without a search table.
 * Threads: one user per object.
 * Fails: "not found", also where the file is damaged.
 * Not here: executing the instructions (cfi.h).
 *
 * Addresses are those of the file (before relocation).
 */
#ifndef PB_STACK_NATIVE_EHFRAME_H
#define PB_STACK_NATIVE_EHFRAME_H

#include "host/elf/elf.h"
#include "stack/native/cursor.h"

struct pb_eh_entry {
    uint64_t start, end;
    uint64_t fde; /* address of the FDE */
};

struct pb_eh {
    const struct pb_elf *elf;
    struct pb_elf_range frame; /* .eh_frame, up to the end of its segment or section */
    struct pb_elf_range hdr;
    const uint8_t *table; /* the sorted table of .eh_frame_hdr, NULL when not usable */
    size_t ntable;
    size_t width;              /* bytes of one number in it: 4 or 8 */
    struct pb_eh_entry *index; /* built at first use when there is no table */
    size_t nindex;
    bool indexed;
};

/* One function's rules, with those it shares through its CIE. */
struct pb_fde {
    uint64_t start, end;
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra_reg;
    uint8_t encoding; /* encoding of addresses in the instructions */
    bool is_signal;   /* a signal trampoline: its caller was interrupted, it did not call */
    struct pb_cursor initial, instructions;
    uint64_t instructions_vaddr;
};

/* True when the file has call frame information. elf is borrowed. */
bool pb_eh_init(struct pb_eh *eh, const struct pb_elf *elf);
void pb_eh_finish(struct pb_eh *eh);
bool pb_eh_find(struct pb_eh *eh, uint64_t vaddr, struct pb_fde *ret);

/* A pointer in one of the DW_EH_PE encodings; vaddr is the address of the cursor's position. */
uint64_t pb_eh_pointer(struct pb_cursor *c, uint8_t encoding, uint64_t vaddr, uint64_t datarel);

#endif
