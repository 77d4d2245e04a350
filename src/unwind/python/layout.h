/*
 * layout.h - where CPython keeps things, per version, as data.
 *
 * Owns: nothing.
 * Threads: const data; a layout filled from _Py_DebugOffsets is the reader's.
 * Fails: an unknown version is refused with a reason, never guessed.
 * Not here: reading (frames.h, value.h), finding the interpreter (locate.h).
 *
 * All numbers are bytes. PB_NONE marks a field that this version does not have.
 */
#ifndef PB_UNWIND_PYTHON_LAYOUT_H
#define PB_UNWIND_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/mem.h"

#define PB_NONE (-1)

enum pb_py_lines {
    PB_LINES_LNOTAB_UNSIGNED, /* to 3.5 */
    PB_LINES_LNOTAB,          /* 3.6 to 3.9 */
    PB_LINES_TABLE_310,       /* PEP 626 */
    PB_LINES_TABLE_311,       /* PEP 657 locations */
};

enum pb_py_dict {
    PB_DICT_OLD,  /* to 3.5: hash table of (hash, key, value) in ma_keys */
    PB_DICT_36,   /* 3.6 to 3.10: indices + entries */
    PB_DICT_311,  /* 3.11+: log2 sizes, unicode-only keys */
};

enum pb_py_instance {
    PB_INSTANCE_DICTOFFSET,  /* to 3.10: tp_dictoffset */
    PB_INSTANCE_VALUES_311,  /* values at -4, dict at -3 words */
    PB_INSTANCE_VALUES_312,  /* dict-or-values, tagged, at -3 words */
    PB_INSTANCE_INLINE_313,  /* managed dict at -3 words, values inline behind the object */
};

struct pb_py_layout {
    int major, minor;
    bool free_threaded;
    bool debug_build;

    /* runtime and interpreter */
    int runtime_interp_head; /* PB_NONE to 3.6: the symbol interp_head */
    int runtime_tstate_current; /* GIL holder 3.7 to 3.11, PB_NONE elsewhere */
    int runtime_gil_holder, runtime_gil_locked; /* 3.7 to 3.11 */
    int interp_next, interp_id, interp_threads_head, interp_threads_main;
    int interp_gil;             /* pointer to the GIL, 3.12+ */
    int gil_holder, gil_locked; /* inside the GIL, 3.12+ */
    int gil_enabled;            /* free-threaded: is the GIL in use */
    int interp_modules;         /* dict of imported modules */
    int runtime_finalizing; /* the thread that ends the runtime; PB_NONE to 3.6: a symbol */
    int interp_gc_collecting, runtime_gc_collecting; /* the latter in 3.7 and 3.8 */
    int interp_gc_frame; /* where the running collection began, 3.15+ */

    /* thread state */
    int ts_next, ts_interp, ts_frame;
    int ts_cframe; /* 3.11, 3.12: frame is reached through it */
    int cframe_current, cframe_previous;
    int ts_base_frame; /* 3.15+: every chain of frames ends at one inside the thread state */
    int ts_thread_id, ts_native_id, ts_chunk, ts_status;
    int ts_id;
    int ts_state; /* 3.13+: 0 detached, 1 attached, 2 suspended */

    /* frame: PyFrameObject to 3.10, _PyInterpreterFrame after */
    int frame_size; /* bytes to copy for the fixed part */
    int f_back, f_code, f_lasti, f_localsplus, f_owner, f_is_entry, f_stackpointer, f_tlbc_index;
    bool f_instr_is_pointer; /* prev_instr or instr_ptr; else an index */
    bool f_instr_is_next;    /* 3.13+ instr_ptr: the current instruction itself */
    int lasti_scale;         /* bytes per unit of lasti (1 or 2) */
    int owner_shim, owner_shim2; /* owner values that mark a frame of the C stack */
    int owner_generator;
    bool tagged; /* 3.14+: pointers carry tag bits in the low two bits */

    /* code object */
    int co_size; /* bytes to copy for the fixed part */
    int co_filename, co_name, co_qualname, co_firstlineno, co_linetable, co_code;
    int co_argcount, co_kwonlyargcount, co_nlocals, co_flags;
    int co_varnames; /* tuple of names; localsplusnames from 3.11 */
    int co_cellvars, co_freevars; /* to 3.10 */
    int co_localspluskinds;       /* 3.11+ */
    int co_tlbc;
    enum pb_py_lines lines;

    /* objects */
    int ob_head; /* sizeof(PyObject): the first field of most objects */
    int ob_type, ob_size;
    int type_name, type_flags, type_basicsize, type_itemsize, type_dictoffset, type_mro;
    int type_base, type_dict, type_qualname;
    int type_cached_keys; /* the names of inline values, 3.11+ */
    int tuple_items, list_items; /* list_items: pointer to the array */
    int bytes_data;
    int float_value;
    int long_tag, long_digits; /* long_tag: ob_size to 3.11, lv_tag after */
    bool long_is_tagged;       /* 3.12+ lv_tag: size << 3 | sign */
    int str_length, str_state, str_ascii_size, str_compact_size;
    enum pb_py_dict dict;
    int dict_used, dict_keys, dict_values;
    int set_used, set_mask, set_table;
    enum pb_py_instance instance;
    int managed_dict; /* of the slot in front of the object, negative; 0: no such slot */
    int func_name, func_qualname;
    int gen_name, gen_qualname; /* PB_NONE in 3.4 */
    int gen_frame; /* embedded frame of a generator, 3.11+ */
};

/*
 * The layout of a version without _Py_DebugOffsets (3.4 to 3.12), micro included
 * because fields moved inside 3.7. NULL when unknown.
 */
const struct pb_py_layout *pb_py_layout_find(int major, int minor, int micro);

/* Bytes of _Py_DebugOffsets that are worth reading at the start of _PyRuntime. */
#define PB_DEBUG_OFFSETS_MAX 1024

/*
 * Fills a layout from the first bytes of _PyRuntime (3.13 and later). Positions
 * inside the struct are per minor version; values are checked for plausibility.
 */
int pb_py_layout_from_offsets(struct pb_py_layout *ret, const uint8_t *bytes, size_t len,
                              struct pb_err *err);

#endif
