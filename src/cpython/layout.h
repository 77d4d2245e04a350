/*
 * layout.h - where CPython keeps things, per version, as data.
 *
 * Owns: nothing.
 * Threads: const data; a layout is its reader's.
 * Fails: an unknown version is refused with a reason, never guessed.
 * Not here: reading and finding the interpreter (stack/python/ from outside, agent/ from inside).
 *
 * What is known of a version stands in one file, versions/3_N.def. All numbers are bytes.
 * PB_NONE marks a field that this version does not have, or that is not known of it: whoever
 * needs that field does without.
 */
#ifndef PB_CPYTHON_LAYOUT_H
#define PB_CPYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

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

/* What the C API of a version promises; 1 where it does. Later versions keep it. */
struct pb_py_api {
    int gil_is_late;          /* 3.6: no GIL before the first thread is made */
    int pending_is_lockless;  /* 3.6: a pending call is queued without waiting for a lock */
    int pending_is_noticed;   /* a pending call that another thread queues ends a busy loop */
    int fastcall;             /* 3.7+: a method may take an array and the names of keywords */
    int vectorcall;           /* 3.8+: a builtin function has a pointer that it is called through */
    int vectorcall_always;    /* 3.9+: every call of a builtin function goes through that pointer */
    int slot_interpreters;    /* 3.12+: a module says whether it may be in several interpreters */
    int slot_gil;             /* 3.13+: a module says whether it needs the GIL */
    int pop_block;            /* to 3.10: instruction that ends a `with` or `try`; 0: none */
    int load_special;         /* 3.14+: instruction that finds what `with` calls then; 0: none */
    int exception_is_late;    /* 3.13+: one from another thread comes up a check later than asked */
    int fork_waits;           /* 3.13+: a fork waits for threads that are just being added */
    int current_is_of_thread; /* 3.12+: the current thread state is the calling thread's own */
};

struct pb_py_layout {
    /* runtime and interpreter */
    int runtime_interp_head;    /* PB_NONE to 3.6: the symbol interp_head */
    int runtime_tstate_current; /* GIL holder 3.7 to 3.11, PB_NONE elsewhere */
    int runtime_gil_holder, runtime_gil_locked; /* 3.7 to 3.11 */
    int interp_size;
    int interp_next, interp_id, interp_threads_head, interp_threads_main;
    int interp_gil;             /* pointer to the GIL, 3.12+ */
    int gil_holder, gil_locked; /* inside the GIL, 3.12+ */
    int gil_enabled;            /* free-threaded: is the GIL in use */
    int interp_modules;         /* dict of imported modules */
    int runtime_finalizing;     /* the thread that ends the runtime; PB_NONE to 3.6: a symbol */
    int interp_gc_collecting, runtime_gc_collecting; /* the latter in 3.7 and 3.8 */
    int interp_gc_frame; /* where the running collection began, 3.15+ */

    /* thread state */
    int ts_size;
    int ts_next, ts_interp, ts_frame;
    int ts_cframe; /* 3.11, 3.12: frame is reached through it */
    int cframe_current, cframe_previous;
    int ts_base_frame; /* 3.15+: every chain of frames ends at one inside the thread state */
    int ts_thread_id, ts_native_id, ts_chunk, ts_status;
    int ts_id;
    int ts_state; /* 3.13+: 0 detached, 1 attached, 2 suspended */

    /* a script that another process asks for (PEP 768), 3.14+ */
    int dbg_eval_breaker; /* in the thread state */
    int dbg_support;      /* in the thread state: what the next two lie in */
    int dbg_pending, dbg_path;
    int dbg_path_size; /* bytes of room */
    int dbg_enabled;   /* in the interpreter */

    /* frame: PyFrameObject to 3.10, _PyInterpreterFrame after */
    int frame_size; /* bytes to copy for the fixed part */
    int f_back, f_code, f_lasti, f_localsplus, f_owner, f_is_entry, f_stackpointer, f_tlbc_index;
    int lasti_scale; /* bytes per unit of lasti (1 or 2) */
    int owner_shim, owner_shim2; /* owner values that mark a frame of the C stack */
    int owner_generator;
    int frame_object_frame; /* 3.11+: in a frame object, the address of the interpreter's frame */

    /* code object */
    int co_size; /* bytes to copy for the fixed part */
    int co_filename, co_name, co_qualname, co_firstlineno, co_linetable, co_code;
    int co_argcount, co_kwonlyargcount, co_nlocals, co_flags;
    int co_varnames; /* tuple of names; localsplusnames from 3.11 */
    int co_cellvars, co_freevars; /* to 3.10 */
    int co_localspluskinds;       /* 3.11+ */
    int co_nlocalsplus, co_stacksize; /* 3.11+: slots of a frame */
    int co_tlbc;                  /* bytecode of each thread, free-threaded */
    int lines;                    /* enum pb_py_lines */

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
    int str_length, str_state, str_ascii_size, str_compact_size;
    int str_wide, str_wide_length; /* fields of a str that old C code made, to 3.11 */
    int dict;                      /* enum pb_py_dict */
    int dict_used, dict_keys, dict_values;
    int set_used, set_mask, set_table;
    int instance;     /* enum pb_py_instance */
    int managed_dict; /* offset of the slot in front of the object, negative */
    int func_name, func_qualname;
    int gen_name, gen_qualname; /* PB_NONE in 3.4 */
    int gen_frame;              /* embedded frame of a generator, 3.11+ */

    /* lists of the garbage collector: three, one behind the other, and a permanent one */
    int gc_head;      /* sizeof(PyGC_Head), in front of an object; not in free-threaded builds */
    int gc_list_size; /* from the head of one list to the next */
    int interp_gc_lists, interp_gc_permanent;   /* 3.9+ */
    int runtime_gc_lists, runtime_gc_permanent; /* 3.7, 3.8; PB_NONE before: a symbol */

    /* memory of small objects: pymalloc */
    int interp_obmalloc; /* 3.12+: the allocator's state; PB_NONE before: symbols */
    int obmalloc_arenas; /* in that state: array of arenas, and how many */
    int arena_size, pool_size;
    /* mimalloc, in free-threaded builds */
    int mi_segment_entries, mi_segment_info, mi_segment_thread, mi_segment_pages;
    int mi_page_size, mi_page_capacity, mi_page_free, mi_page_used, mi_page_block_size;
    int mi_page_local_free, mi_page_thread_free;

    /* The rest is 0 where it is not said. */
    int major, minor;
    int free_threaded;
    int f_instr_is_pointer; /* prev_instr or instr_ptr; else an index */
    int f_instr_is_next;    /* 3.13+ instr_ptr: the current instruction itself */
    int tagged;             /* 3.14+: pointers carry tag bits in the low two bits */
    int long_is_tagged;     /* 3.12+ lv_tag: size << 3 | sign */
    int obmalloc_is_pointer; /* 3.13+: interp_obmalloc holds an address, not the state itself */
    int lock_is_mutex;   /* 3.14+: a lock object is a mutex; else it has a semaphore's address */
    int exit_is_unbound; /* 3.14+: `with` keeps the function __exit__, with its object behind it */
    const char *loop;       /* C function that runs bytecode, once for each run of it */
    struct pb_py_api api;
};

/*
 * The layout of a version that does not describe itself (to 3.12), micro included because fields
 * moved inside 3.7; -1 when it is not known. False: an unknown version.
 */
bool pb_py_layout_find(struct pb_py_layout *ret, int major, int minor, int micro);

/* Bytes of _Py_DebugOffsets that are worth reading at the start of _PyRuntime. */
#define PB_DEBUG_OFFSETS_MAX 1024

/*
 * Fills a layout from the first bytes of _PyRuntime (3.13 and later). Positions inside the struct
 * are per minor version; values are checked for plausibility.
 */
int pb_py_layout_from_offsets(struct pb_py_layout *ret, const uint8_t *bytes, size_t len,
                              struct pb_err *err);

/* What can be done with a version. */
enum pb_py_support {
    PB_PY_UNKNOWN,
    PB_PY_STACKS_ONLY, /* read from outside; the agent does not run in it */
    PB_PY_AGENT,
};

enum pb_py_support pb_py_support(int major, int minor);
/* Of a version newer than all that are known: what the newest of them promises. */
struct pb_py_api pb_py_api_of(int major, int minor);
/* "3.4 to 3.15": the versions that there is a file for. */
const char *pb_py_supported(char *buf, size_t cap);

#endif
