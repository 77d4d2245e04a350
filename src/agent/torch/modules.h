/*
 * modules.h - which modules there are, and their names.
 *
 * Owns: an entry for each module that was met; a weak reference frees it when the module goes.
 * Threads: GIL held.
 * Fails: NULL when there are too many modules, or the collector was turned off meanwhile.
 * Not here: calls of modules (calls.h).
 *
 * Mostly modules are called in the same order, so that two short arrays answer: each entry's
 * address, and which entry came after it the last time. Else a hash of the address does.
 */
#ifndef PB_AGENT_TORCH_MODULES_H
#define PB_AGENT_TORCH_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb_torch;
struct pb_torch_call;

enum {
    PB_TORCH_MODULES = 1 << 13,
    PB_TORCH_INDEX = 2 * PB_TORCH_MODULES, /* a power of two */
    PB_TORCH_PATH = 256,                   /* bytes of a dotted name */
};

struct pb_torch_module {
    struct _object *object; /* borrowed; NULL: free; PB_TORCH_GONE: deleted */
    struct _object *weak;
    uint32_t name, type, operation; /* dictionary of python.torch_trace */
    uint32_t backward;              /* dictionary: operation of its backward; 0: not made yet */
    uint32_t label;                 /* dictionary: name as an outermost module; 0: not made yet */
    uint32_t number;                /* number among labelled modules of its class, from 1 */
    uint32_t shown;                 /* name for readers outside (progress.h) */
    uint32_t walk;                  /* last walk over the tree that met it; next free entry */
    bool root;                      /* named by its class: no other module is known to hold it */
    bool has_children, has_parameters;
    float own_mb; /* memory that its last traced call left allocated, without modules inside */
};

#define PB_TORCH_GONE ((struct _object *)1)

/* Entry of a hash table by address. */
struct pb_torch_index {
    const struct _object *object;
    uint32_t number; /* position in the list, from 1 on; 0: never used */
};

struct pb_torch_modules {
    uint32_t changes;         /* deletions and moves of entries so far */
    uint16_t last, expected;  /* entry called last; entry that will be called next, most likely */
    uint32_t count;           /* entries that are or were used */
    uint32_t free;            /* first free entry among them, from 1 on; 0: none */
    uint32_t walk;            /* number of the last walk over a tree */
    uint32_t strays;          /* modules met outside of every tree since the last walk */
    uint32_t strays_limit;    /* strays after which a tree is walked again */
};

struct pb_torch_module_table {
    const struct _object *objects[PB_TORCH_MODULES];
    uint16_t after[PB_TORCH_MODULES];
    struct pb_torch_index index[PB_TORCH_INDEX];
    struct pb_torch_module list[PB_TORCH_MODULES];
};

struct pb_torch_module *pb_torch_module_find(struct pb_torch *t, const struct _object *object);
/* The same for a module that is being called: remembers the order of calls. */
struct pb_torch_module *pb_torch_module_called(struct pb_torch *t, const struct _object *object);
/* Adds an entry without a name; NULL when there is no room. */
struct pb_torch_module *pb_torch_module_add(struct pb_torch *t, struct _object *object);
/* Frees all entries: their names belong to a ring that is gone, or the collector leaves. */
void pb_torch_modules_forget(struct pb_torch *t);

/* module_names.c: no exception pending. */
/* First call of a module that has no name: names it, and the modules in it. */
struct pb_torch_module *pb_torch_module_meet(struct pb_torch *t, struct _object *object,
                                             const struct pb_torch_call *outer);
/* Dictionary: name of a module as an outermost one, "Net" or "Net#2". */
uint32_t pb_torch_module_label(struct pb_torch *t, struct pb_torch_module *m);
/* Dictionary: label of the outermost module that has this parameter, or PB_NULL_NAME. */
uint32_t pb_torch_model_of_parameter(struct pb_torch *t, struct _object *parameter);
/* Dictionary: "text" for number 0 and 1, else "text#2" and so on. */
uint32_t pb_torch_numbered_name(struct pb_torch *t, uint32_t name, uint32_t number);
/* Dictionary: name of an object's class. ret: its first bytes and their number, or NULL. */
uint32_t pb_torch_type_name(struct pb_torch *t, struct _object *object, char *ret,
                            size_t *ret_len);

/* parameters.c: no exception pending. */
/*
 * First parameter below a module that has a gradient, as a new reference; or NULL. ret_searched:
 * whether there was any parameter to look at; or NULL.
 */
struct _object *pb_torch_find_gradient(struct pb_torch *t, struct _object *module,
                                       bool *ret_searched);
/* A parameter's gradient as a new reference, or NULL. */
struct _object *pb_torch_gradient(const struct pb_torch *t, struct _object *parameter);

#endif
