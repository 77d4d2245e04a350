#include "stack/python/threads.h"

#include <string.h>
#include <sys/syscall.h>

#include "host/process/mempages.h"
#include "stack/values/pointer.h"
#include "stack/python/tids.h"

#define INTERPS_MAX 4096
#define THREADS_MAX 65536
#define RETRIES 4
#define ATTACHED 1 /* state of a thread that may touch objects, 3.13 and later */
/* The condition variables and mutexes of a GIL, which lie behind the word that says "locked". */
#define GIL_SIZE 208

/* What all threads of an interpreter share. */
struct interp {
    uint64_t addr;
    int64_t id;
    uint64_t holder, gil, gil_size;
    bool collecting;
    uint64_t gc_frame;
};

uint64_t pb_py_gil_holder(const struct pb_py_location *loc, struct pb_mem *mem, uint64_t interp)
{
    const struct pb_py_layout *py = &loc->layout;
    uint64_t holder = 0, gil = 0;
    uint32_t locked = 0;

    if (loc->current) {
        pb_mem_u64(mem, loc->current, &holder);
        return holder;
    }
    if (py->interp_gil == PB_NONE) {
        if (loc->runtime && py->runtime_tstate_current != PB_NONE)
            pb_mem_u64(mem, loc->runtime + (uint64_t)py->runtime_tstate_current, &holder);
        return holder;
    }
    if (!pb_mem_u64(mem, interp + (uint64_t)py->interp_gil, &gil) || !pb_py_plausible(gil))
        return 0;
    if (py->free_threaded && py->gil_enabled != PB_NONE) {
        uint32_t enabled = 0;

        if (!pb_mem_u32(mem, gil + (uint64_t)py->gil_enabled, &enabled) || !enabled)
            return 0;
    }
    if (!pb_mem_u32(mem, gil + (uint64_t)py->gil_locked, &locked) || (int32_t)locked != 1 ||
        !pb_mem_u64(mem, gil + (uint64_t)py->gil_holder, &holder))
        return 0;
    return holder;
}

static uint64_t gil_address(const struct pb_py_location *loc, struct pb_mem *mem, uint64_t interp)
{
    const struct pb_py_layout *py = &loc->layout;
    uint64_t gil = 0;

    if (loc->gil)
        return loc->gil;
    if (py->interp_gil == PB_NONE)
        return loc->runtime && py->runtime_gil_locked != PB_NONE
                   ? loc->runtime + (uint64_t)py->runtime_gil_locked
                   : 0;
    if (!pb_mem_u64(mem, interp + (uint64_t)py->interp_gil, &gil) || !pb_py_plausible(gil))
        return 0;
    return gil + (uint64_t)py->gil_locked;
}

bool pb_py_wants_gil(const struct pb_py_thread *t, const struct pb_proc_wait *wait)
{
    return t->gil && wait->blocked && wait->nr == SYS_futex && wait->args[0] >= t->gil &&
           wait->args[0] - t->gil < t->gil_size;
}

struct walk {
    const struct pb_py_layout *py;
    struct pb_mem *mem;
    struct pb_arena *a;
    struct pb_py_threads *ret;
    size_t cap;
};

static bool add_thread(struct walk *w, uint64_t tstate, uint64_t interp, uint64_t *ret_next)
{
    const struct pb_py_layout *py = w->py;
    uint64_t back = 0, ident = 0, native = 0;
    struct pb_py_threads *t = w->ret;
    struct pb_mem_range r[4] = {
        {tstate + (uint64_t)py->ts_next, ret_next, 8},
        {tstate + (uint64_t)py->ts_interp, &back, 8},
        {tstate + (uint64_t)py->ts_thread_id, &ident, 8},
        {tstate + (uint64_t)py->ts_native_id, &native, 8},
    };
    size_t n = py->ts_native_id == PB_NONE ? 3 : 4;

    if (!pb_py_plausible(tstate) || w->mem->read(w->mem, r, n) != n || back != interp)
        return false;
    if (t->n == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 32;

        t->v = pb_arena_grow(w->a, t->v, w->cap * sizeof *t->v, cap * sizeof *t->v);
        w->cap = cap;
    }
    t->v[t->n++] = (struct pb_py_thread){
        .tstate = tstate, .interp = interp, .ident = ident, .tid = (pid_t)native};
    return true;
}

static bool walk_once(const struct pb_py_location *loc, struct walk *w)
{
    const struct pb_py_layout *py = w->py;
    uint64_t interp, tstate;

    w->ret->n = 0;
    if (!pb_mem_u64(w->mem, loc->interp_head, &interp))
        return false;
    for (int i = 0; interp && i < INTERPS_MAX; i++) {
        if (!pb_py_plausible(interp) ||
            !pb_mem_u64(w->mem, interp + (uint64_t)py->interp_threads_head, &tstate))
            return false;
        while (tstate) {
            if (w->ret->n >= THREADS_MAX || !add_thread(w, tstate, interp, &tstate))
                return false;
        }
        if (!pb_mem_u64(w->mem, interp + (uint64_t)py->interp_next, &interp))
            return false;
    }
    return true;
}

static void reverse(struct pb_py_threads *t)
{
    for (size_t i = 0, j = t->n; i + 1 < j; i++) {
        struct pb_py_thread swap = t->v[i];

        t->v[i] = t->v[--j];
        t->v[j] = swap;
    }
}

/* Numbers count up from 0, the main one; to 3.6 by their order, since they have none. */
static void describe_interp(const struct pb_py_location *loc, struct pb_mem *mem, uint64_t addr,
                            struct interp *ret)
{
    const struct pb_py_layout *py = &loc->layout;
    uint32_t collecting = 0;
    uint64_t id = 0;

    memset(ret, 0, sizeof *ret);
    ret->addr = addr;
    ret->holder = pb_py_gil_holder(loc, mem, addr);
    ret->gil = gil_address(loc, mem, addr);
    ret->gil_size = loc->gil ? loc->gil_size : GIL_SIZE;
    if (py->interp_id != PB_NONE && pb_mem_u64(mem, addr + (uint64_t)py->interp_id, &id))
        ret->id = (int64_t)id;
    if (py->interp_gc_collecting != PB_NONE)
        pb_mem_u32(mem, addr + (uint64_t)py->interp_gc_collecting, &collecting);
    else if (loc->runtime && py->runtime_gc_collecting != PB_NONE)
        pb_mem_u32(mem, loc->runtime + (uint64_t)py->runtime_gc_collecting, &collecting);
    if (collecting && py->interp_gc_frame != PB_NONE)
        pb_mem_u64(mem, addr + (uint64_t)py->interp_gc_frame, &ret->gc_frame);
    ret->collecting = collecting != 0;
}

/*
 * A collection keeps the GIL, so its thread is the one that holds it. Without a GIL the others are
 * suspended meanwhile, and it is the one that is still attached.
 */
static bool is_collecting(const struct pb_py_layout *py, struct pb_mem *mem,
                          const struct interp *in, const struct pb_py_thread *t)
{
    uint32_t state = 0;

    if (!in->collecting)
        return false;
    if (!py->free_threaded || py->ts_state == PB_NONE)
        return t->holds_gil;
    return pb_mem_u32(mem, t->tstate + (uint64_t)py->ts_state, &state) && state == ATTACHED;
}

static void describe_threads(const struct pb_py_location *loc, struct pb_mem *mem,
                             struct pb_py_threads *ret)
{
    struct interp in = {0};
    int64_t older = -1;

    for (size_t i = 0; i < ret->n; i++) {
        struct pb_py_thread *t = &ret->v[i];

        if (t->interp != in.addr) {
            describe_interp(loc, mem, t->interp, &in);
            older++;
        }
        t->interp_id = loc->layout.interp_id == PB_NONE ? older : in.id;
        t->gil = in.gil;
        t->gil_size = in.gil_size;
        t->holds_gil = in.holder == t->tstate;
        t->collecting = is_collecting(&loc->layout, mem, &in, t);
        t->gc_frame = in.gc_frame;
    }
}

void pb_py_threads_read(const struct pb_py_location *loc, struct pb_mem *mem, pid_t pid,
                        const pid_t *tids, size_t ntids, struct pb_arena *a,
                        struct pb_py_threads *ret)
{
    struct walk w = {&loc->layout, mem, a, ret, 0};
    uint64_t finalizing = 0;

    memset(ret, 0, sizeof *ret);
    for (int i = 0; i < RETRIES && !ret->complete; i++)
        ret->complete = walk_once(loc, &w);
    reverse(ret);
    pb_py_tids_find(mem, pid, tids, ntids, a, ret);
    describe_threads(loc, mem, ret);
    if (loc->finalizing && pb_mem_u64(mem, loc->finalizing, &finalizing))
        ret->shutting_down = finalizing != 0;
}

struct naming {
    struct pb_py_reader *r;
    struct pb_py_threads *threads;
};

/* threading._active maps an ident to its Thread object, whose _name is the name. */
static bool name_one(uint64_t key, uint64_t value, void *arg)
{
    struct naming *n = arg;
    int64_t ident;

    if (!pb_py_int(n->r, key, &ident))
        return false;
    for (size_t i = 0; i < n->threads->n; i++) {
        struct pb_py_thread *t = &n->threads->v[i];

        if (t->ident != (uint64_t)ident || t->name)
            continue;
        t->name = pb_py_str(n->r, pb_py_instance_get(n->r, value, "_name"), 256);
    }
    return false;
}

static uint64_t find_active(struct pb_py_reader *r, uint64_t interp)
{
    uint64_t modules, module, dict;

    if (r->py->interp_modules == PB_NONE ||
        !pb_mem_u64(r->mem, interp + (uint64_t)r->py->interp_modules, &modules))
        return 0;
    module = pb_py_dict_get(r, modules, "threading");
    /* A module object: header, then its dict. */
    if (!module || !pb_mem_u64(r->mem, module + (uint64_t)r->py->ob_type + 8, &dict))
        return 0;
    return pb_py_dict_get(r, dict, "_active");
}

/* Threads lie close together; what leads to their dict does not. */
static bool name_all(struct pb_py_reader *r, struct pb_py_threads *threads, uint64_t active)
{
    struct pb_mem_pages pages;
    struct pb_py_reader paged = *r;
    struct naming n = {&paged, threads};
    bool all = true;

    pb_mem_pages_init(&pages, r->mem);
    paged.mem = &pages.mem;
    pb_py_dict_each(&paged, active, name_one, &n);
    pb_mem_pages_finish(&pages);
    for (size_t i = 0; i < threads->n; i++)
        all = all && threads->v[i].name;
    return all;
}

/* Threads that another interpreter started are in that one's dict. */
static void name_others(struct pb_py_reader *r, struct pb_py_threads *threads)
{
    uint64_t asked = threads->v[0].interp;

    for (size_t i = 0; i < threads->n; i++) {
        uint64_t active;

        if (threads->v[i].name || threads->v[i].interp == asked)
            continue;
        asked = threads->v[i].interp;
        active = find_active(r, asked);
        if (active)
            name_all(r, threads, active);
    }
}

void pb_py_threads_name(struct pb_py_reader *r, struct pb_py_threads *threads, uint64_t *active)
{
    uint64_t known = *active;

    if (!threads->n || (known && name_all(r, threads, known)))
        return;
    *active = find_active(r, threads->v[0].interp);
    if (*active && *active != known)
        name_all(r, threads, *active);
    name_others(r, threads);
}
