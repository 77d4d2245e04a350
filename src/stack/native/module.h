/*
 * module.h - the files that a target has mapped as code.
 *
 * Owns: the open files and what was parsed of them, until pb_modules_finish.
 * Threads: one user per object.
 * Fails: an address without a usable file has no module.
 * Not here: unwinding, names.
 *
 * A file is opened when the first pc falls into it, not before: a large job
 * maps a hundred libraries and a stack touches ten.
 */
#ifndef PB_STACK_NATIVE_MODULE_H
#define PB_STACK_NATIVE_MODULE_H

#include "stack/native/ehframe.h"
#include "stack/native/native.h"

struct pb_module {
    struct pb_module *next;
    const struct pb_map *map; /* the mapping it was found by */
    struct pb_elf elf;
    bool is_open;  /* elf can be used */
    uint64_t bias; /* address in the target minus address in the file */
    bool has_eh;
    struct pb_eh eh;
    uint64_t func_start, func_end; /* the last answer of pb_module_function */
};

struct pb_modules {
    pid_t pid;
    const struct pb_maps *maps;
    struct pb_mem *mem;
    struct pb_module **by_map; /* parallel to maps->v; NULL: not looked at yet */
    struct pb_module *list;
};

int pb_modules_init(struct pb_modules *ms, pid_t pid, const struct pb_maps *maps,
                    struct pb_mem *mem, struct pb_err *err);
void pb_modules_finish(struct pb_modules *ms);

/* The module of a code address. NULL for anonymous memory; is_open tells if it is of use. */
struct pb_module *pb_modules_find(struct pb_modules *ms, uint64_t pc);
bool pb_modules_is_code(const struct pb_modules *ms, uint64_t pc);
/* Reads code bytes: from the file where there is one, else from the target. */
bool pb_modules_read_code(struct pb_modules *ms, uint64_t addr, void *buf, size_t len);

/* Does a call end at pc? */
bool pb_modules_is_after_call(struct pb_modules *ms, uint64_t pc);
/* What that call leads to, also through a procedure linkage table; 0 when it does not tell. */
uint64_t pb_modules_callee(struct pb_modules *ms, uint64_t pc);

/*
 * The function that holds a file address, by the smaller symbol table first.
 * A symbol without a size counts too when nothing lies in between: its start
 * is enough to decode from, though not to give a name.
 */
bool pb_module_function(struct pb_module *m, uint64_t vaddr, uint64_t *ret_start);

#endif
