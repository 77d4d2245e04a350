#include "stack/python/locks.h"

#include <stdio.h>
#include <string.h>

#include "stack/python/locals.h"
#include "stack/values/object.h"
#include "stack/values/pointer.h"

#define WORDS_MAX 256   /* slots of one frame that are looked at */
#define FRAMES_IN 8     /* innermost frames in which a waited-for lock is looked for */
#define FRAMES_HELD 64  /* frames in which held locks are looked for */
#define HELD_MAX 32
#define REFS_MAX 1000000 /* an object with more references is freed memory that looks like one */

struct words {
    uint64_t v[WORDS_MAX];
    size_t n;      /* how many there are */
    size_t locals; /* the first of them are variables */
};

/* Slots of a frame: its variables, then its stack. */
static bool read_words(struct pb_py_reader *r, const struct pb_py_raw_frame *f, struct words *ret)
{
    const struct pb_py_layout *py = r->py;
    uint32_t locals = 0, stack = 0;
    int at = py->co_nlocalsplus != PB_NONE ? py->co_nlocalsplus : py->co_nlocals;
    int stack_at = py->co_stacksize != PB_NONE ? py->co_stacksize : py->co_nlocals + 4;

    if (f->shim || at == PB_NONE || !pb_mem_u32(r->mem, f->code + (uint64_t)at, &locals) ||
        !pb_mem_u32(r->mem, f->code + (uint64_t)stack_at, &stack))
        return false;
    for (int i = 0; py->co_nlocalsplus == PB_NONE && i < 2; i++) {
        uint64_t tuple, n;
        int names = i ? py->co_freevars : py->co_cellvars;

        if (names != PB_NONE && pb_mem_u64(r->mem, f->code + (uint64_t)names, &tuple) &&
            pb_mem_u64(r->mem, tuple + (uint64_t)py->ob_size, &n) && n < WORDS_MAX)
            locals += (uint32_t)n;
    }
    ret->locals = locals < WORDS_MAX ? locals : WORDS_MAX;
    ret->n = ret->locals + stack < WORDS_MAX ? ret->locals + stack : WORDS_MAX;
    if (!ret->n ||
        !pb_mem_get(r->mem, f->addr + (uint64_t)py->f_localsplus, ret->v, ret->n * 8))
        return false;
    for (size_t i = 0; i < ret->n; i++)
        ret->v[i] = pb_py_untag(py, ret->v[i]);
    return true;
}

/* Is it alive, as far as its first word tells? Free-threaded builds count elsewhere. */
static bool has_references(struct pb_py_reader *r, uint64_t obj)
{
    uint32_t n;

    return r->py->free_threaded || (pb_mem_u32(r->mem, obj, &n) && n > 0 && n < REFS_MAX);
}

static const char *type_of(struct pb_py_reader *r, uint64_t obj)
{
    return pb_py_plausible(obj) ? pb_py_type_name(r, obj) : "";
}

static bool is_lock_type(const char *type, bool *ret_reentrant)
{
    const char *dot = strrchr(type, '.');

    type = dot ? dot + 1 : type;
    *ret_reentrant = strcmp(type, "RLock") == 0;
    return *ret_reentrant || strcmp(type, "lock") == 0;
}

/* What a wait for this lock sleeps on: the mutex inside it, or its semaphore. */
static uint64_t key_of(struct pb_py_reader *r, uint64_t lock)
{
    uint64_t at = lock + (uint64_t)r->py->ob_head, key;

    if (r->py->lock_is_mutex)
        return at;
    return pb_mem_u64(r->mem, at, &key) ? key : 0;
}

static bool is_bound(const char *type)
{
    return strcmp(type, "builtin_function_or_method") == 0 || strcmp(type, "method") == 0;
}

/* The object that a bound method belongs to: the second word behind its head, in C and Python. */
static uint64_t self_of(struct pb_py_reader *r, uint64_t method)
{
    uint64_t self;

    return pb_mem_u64(r->mem, method + (uint64_t)r->py->ob_head + 8, &self) ? self : 0;
}

struct search {
    struct pb_py_reader *r;
    uint64_t key;
    const char *owner; /* variable whose attributes are looked at */
    struct pb_py_lock *ret;
};

static bool is_it(struct search *s, uint64_t obj)
{
    bool reentrant;
    uint64_t owner = 0;

    if (!is_lock_type(type_of(s->r, obj), &reentrant) || key_of(s->r, obj) != s->key)
        return false;
    if (reentrant)
        pb_mem_u64(s->r->mem, obj + (uint64_t)s->r->py->ob_head + 8, &owner);
    s->ret->object = obj;
    s->ret->reentrant = reentrant;
    s->ret->owner = owner;
    return true;
}

static bool visit_attribute(uint64_t key, uint64_t value, void *arg)
{
    struct search *s = arg;
    const char *name;

    if (!pb_py_plausible(value) || !is_it(s, value))
        return false;
    name = pb_py_str(s->r, key, 100);
    if (name && s->owner)
        s->ret->name = pb_arena_printf(s->r->arena, "%s.%s", s->owner, name);
    return true;
}

/* The lock itself, what a bound method belongs to, or an attribute of an object. */
static bool leads_to_it(struct search *s, const char *name, uint64_t obj)
{
    struct pb_py_src src = {s->r, PB_PY_READS_MAX};
    struct pb_py_obj o;

    if (!pb_py_plausible(obj))
        return false;
    if (is_bound(type_of(s->r, obj)))
        obj = self_of(s->r, obj);
    if (is_it(s, obj)) {
        s->ret->name = s->ret->name ? s->ret->name : name;
        return true;
    }
    s->owner = name;
    return pb_py_open(&src, obj, &o) && (o.type->flags & PB_TP_HEAPTYPE) &&
           pb_py_instance_walk(&src, &o, visit_attribute, s) && s->ret->object;
}

static bool search_frame(struct search *s, struct pb_py_codes *c, struct pb_py_code *code,
                         const struct pb_py_raw_frame *f, struct pb_arena *a)
{
    struct pb_py_slot *slots;
    struct words w;
    size_t n;

    if (!read_words(s->r, f, &w))
        return false;
    n = code ? pb_py_slots(c, code, f, a, &slots) : 0;
    for (size_t i = 0; i < n; i++)
        if (leads_to_it(s, slots[i].name, slots[i].ref))
            return true;
    for (size_t i = 0; i < w.n; i++)
        if (leads_to_it(s, NULL, w.v[i]))
            return true;
    return false;
}

bool pb_py_lock_waited(struct pb_py_codes *c, const struct pb_py_raw_stack *s,
                       struct pb_py_code *const *codes, uint64_t futex, struct pb_arena *a,
                       struct pb_py_lock *ret)
{
    struct pb_py_reader r = c->reader;
    struct search search = {&r, futex, NULL, ret};

    r.arena = a;
    *ret = (struct pb_py_lock){.key = futex};
    if (r.py->lock_is_mutex && !pb_mem_u64(r.mem, futex - 8, &search.key))
        return false;
    ret->key = search.key;
    for (size_t i = 0; i < s->n && i < FRAMES_IN; i++)
        if (search_frame(&search, c, codes ? codes[i] : NULL, &s->v[i], a))
            return true;
    return false;
}

/* Is this bound method an __exit__? */
static bool is_exit(struct pb_py_reader *r, uint64_t method, const char *type)
{
    uint64_t at, name;
    char text[16] = "";
    const char *s;

    if (!pb_mem_u64(r->mem, method + (uint64_t)r->py->ob_head, &at))
        return false;
    if (strcmp(type, "method") == 0) {
        s = pb_mem_u64(r->mem, at + (uint64_t)r->py->func_name, &name) ? pb_py_str(r, name, 16)
                                                                       : NULL;
        return s && strcmp(s, "__exit__") == 0;
    }
    return pb_mem_u64(r->mem, at, &name) && pb_mem_string(r->mem, name, text, sizeof text) &&
           strcmp(text, "__exit__") == 0;
}

/* The lock that an object is, or that it wraps as threading.Condition does; 0 for none. */
static uint64_t lock_in(struct pb_py_reader *r, uint64_t obj)
{
    bool reentrant;
    uint64_t inner;

    if (!pb_py_plausible(obj))
        return 0;
    if (is_lock_type(type_of(r, obj), &reentrant))
        return obj;
    inner = pb_py_instance_get(r, obj, "_lock");
    return inner && is_lock_type(type_of(r, inner), &reentrant) ? inner : 0;
}

static uint64_t held_at(struct pb_py_reader *r, const struct words *w, size_t i)
{
    const char *type = type_of(r, w->v[i]);

    if (!*type || !has_references(r, w->v[i]))
        return 0;
    if (is_bound(type))
        return is_exit(r, w->v[i], type) ? lock_in(r, self_of(r, w->v[i])) : 0;
    if (r->py->exit_is_unbound && i + 1 < w->n &&
        (strcmp(type, "method_descriptor") == 0 || strcmp(type, "function") == 0))
        return lock_in(r, w->v[i + 1]);
    return 0;
}

size_t pb_py_locks_held(struct pb_py_codes *c, const struct pb_py_raw_stack *s, struct pb_arena *a,
                        uint64_t **ret)
{
    struct pb_py_reader r = c->reader;
    struct words w;
    size_t n = 0;

    r.arena = a;
    *ret = PB_NEW_N(a, uint64_t, HELD_MAX);
    for (size_t f = 0; f < s->n && f < FRAMES_HELD; f++) {
        if (!read_words(&r, &s->v[f], &w))
            continue;
        for (size_t i = w.locals; i < w.n && n < HELD_MAX; i++) {
            uint64_t lock = held_at(&r, &w, i);

            if (lock)
                (*ret)[n++] = lock;
        }
    }
    return n;
}

/* Functions of the standard library whose `self` names the thread that is waited for. */
static const struct {
    const char *file, *name, *attribute;
} named[] = {
    {"/threading.py", "join", "_ident"},
    {"/threading.py", "_wait_for_tstate_lock", "_ident"},
    {"<frozen importlib._bootstrap>", "acquire", "owner"},
};

static const char *attribute_of(const struct pb_py_code *code)
{
    size_t len = code && code->file ? strlen(code->file) : 0;

    for (size_t i = 0; len && code->name && i < sizeof named / sizeof *named; i++) {
        size_t n = strlen(named[i].file);

        if (len >= n && strcmp(code->file + len - n, named[i].file) == 0 &&
            strcmp(code->name, named[i].name) == 0)
            return named[i].attribute;
    }
    return NULL;
}

uint64_t pb_py_thread_joined(struct pb_py_codes *c, const struct pb_py_raw_stack *s,
                             struct pb_py_code *const *codes, struct pb_arena *a)
{
    struct pb_py_reader r = c->reader;

    r.arena = a;
    for (size_t i = 0; codes && i < s->n && i < FRAMES_IN; i++) {
        const char *attribute = attribute_of(codes[i]);
        struct pb_py_slot *slots;
        int64_t ident;
        size_t n = attribute ? pb_py_slots(c, codes[i], &s->v[i], a, &slots) : 0;

        for (size_t k = 0; k < n; k++)
            if (strcmp(slots[k].name, "self") == 0 &&
                pb_py_int(&r, pb_py_instance_get(&r, slots[k].ref, attribute), &ident))
                return (uint64_t)ident;
    }
    return 0;
}
