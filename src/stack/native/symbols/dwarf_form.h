/*
 * dwarf_form.h - the forms that a value in debug information can have.
 *
 * Owns: nothing. Threads: any. Fails: never. Not here: reading them (dwarf_line.h).
 */
#ifndef PB_STACK_NATIVE_SYMBOLS_DWARF_FORM_H
#define PB_STACK_NATIVE_SYMBOLS_DWARF_FORM_H

/* clang-format off */
enum {
    FORM_addr = 0x01, FORM_block2 = 0x03, FORM_block4, FORM_data2, FORM_data4, FORM_data8,
    FORM_string, FORM_block, FORM_block1, FORM_data1, FORM_flag, FORM_sdata, FORM_strp,
    FORM_udata, FORM_ref_addr, FORM_ref1, FORM_ref2, FORM_ref4, FORM_ref8, FORM_ref_udata,
    FORM_indirect, FORM_sec_offset, FORM_exprloc, FORM_flag_present, FORM_strx, FORM_addrx,
    FORM_ref_sup4, FORM_strp_sup, FORM_data16, FORM_line_strp, FORM_ref_sig8,
    FORM_implicit_const, FORM_loclistx, FORM_rnglistx, FORM_ref_sup8, FORM_strx1, FORM_strx2,
    FORM_strx3, FORM_strx4, FORM_addrx1, FORM_addrx2, FORM_addrx3, FORM_addrx4,
    FORM_GNU_addr_index = 0x1f01, FORM_GNU_str_index, FORM_GNU_ref_alt = 0x1f20, FORM_GNU_strp_alt,
};
/* clang-format on */

#endif
