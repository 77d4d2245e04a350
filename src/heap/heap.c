#include "heap/heap.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "heap/internal.h"
#include "heap/reach.h"
#include "host/process/proc.h"

#define MEMORY_MIN (UINT64_C(256) << 20)
#define WORK_MIN (UINT64_C(256) << 20)
#define WORK_TIMES 8        /* each byte may be met as part of a block, an object and a reference */
#define CLOCK_EVERY (16u << 20) /* bytes between two looks at the clock */
#define LARGE_COST 48       /* bytes of our own memory for each object outside */

static int compare_types(const void *x, const void *y)
{
    const struct pb_heap_type *a = x, *b = y;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return strcmp(a->type, b->type);
}

/* "app.models.Node" into module and name; what has no module is built in. */
void pb_heap_split_name(struct pb_heap_look *h, const struct pb_py_type *t, const char **ret_type,
                        const char **ret_module)
{
    const char *dot = strrchr(t->name, '.'), *module, *name;

    h->src.reads = PB_PY_READS_MAX;
    if (t->flags & PB_TP_HEAPTYPE) {
        pb_py_type_names(&h->src, t, &module, &name);
        *ret_module = pb_arena_strdup(h->a, module);
        *ret_type = pb_arena_strdup(h->a, name);
        return;
    }
    *ret_module = dot ? pb_arena_strndup(h->a, t->name, (size_t)(dot - t->name)) : "builtins";
    *ret_type = pb_arena_strdup(h->a, dot ? dot + 1 : t->name);
}

static void list_types(struct pb_heap_look *h)
{
    struct pb_heap *ret = h->ret;

    ret->types = PB_NEW_N(h->a, struct pb_heap_type, h->nkinds + 1);
    for (size_t i = 0; i < h->kinds_cap; i++) {
        const struct pb_heap_kind *k = h->kinds[i];
        struct pb_heap_type *t = &ret->types[ret->ntypes];

        if (!k || !k->count)
            continue;
        pb_heap_split_name(h, k->type, &t->type, &t->module);
        t->count = k->count;
        t->bytes = k->bytes;
        ret->objects += k->count;
        ret->bytes += k->bytes;
        ret->ntypes++;
    }
    qsort(ret->types, ret->ntypes, sizeof *ret->types, compare_types);
}

static void list_containers(struct pb_heap_look *h)
{
    struct pb_heap *ret = h->ret;

    ret->containers = PB_NEW_N(h->a, struct pb_heap_container, h->ntop + PB_HEAP_OWN_MAX + 1);
    for (size_t i = 0; i < h->ntop; i++) {
        struct pb_heap_container *c = &ret->containers[ret->ncontainers++];

        c->addr = h->top[i].addr;
        c->items = h->top[i].items;
        c->bytes = h->top[i].bytes;
        pb_heap_split_name(h, h->top[i].kind->type, &c->type, &c->module);
    }
}

static uint64_t kilobytes(const char *status, const char *key)
{
    const char *line = status ? strstr(status, key) : NULL;

    return line ? strtoull(line + strlen(key), NULL, 10) : 0;
}

/* Bytes that the target has, in memory or swapped out: what it only has addresses for costs it
   nothing, and does not count. */
static uint64_t bytes_of(pid_t pid, struct pb_arena *a)
{
    size_t len;
    char *status = pb_proc_read(pid, "status", a, &len);

    return (kilobytes(status, "\nVmRSS:") + kilobytes(status, "\nVmSwap:")) << 10;
}

static uint64_t default_memory(uint64_t target)
{
    uint64_t free = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t max = free / 4 < 2 * target ? free / 4 : 2 * target;

    return max > MEMORY_MIN ? max : MEMORY_MIN;
}

static void set_limits(struct pb_heap_look *h, const struct pb_target_view *view)
{
    uint64_t target = view->bytes ? view->bytes : bytes_of(view->pid, &h->types);
    const struct pb_heap_opts *o = h->o;

    pb_copy_init(&h->copy, view->mem, view->maps,
                 o->memory_max ? o->memory_max : default_memory(target));
    h->work_left = o->work_max ? o->work_max : WORK_MIN + WORK_TIMES * target;
    h->copies_left = h->clock_at = h->work_left;
    h->large_max = h->copy.limit / LARGE_COST;
}

bool pb_heap_spend(struct pb_heap_look *h, uint64_t bytes)
{
    if (h->late || bytes > h->work_left || h->copy.total > h->copies_left) {
        h->work_left = 0;
        return false;
    }
    h->work_left -= bytes;
    if (h->clock_at - h->work_left < CLOCK_EVERY)
        return true;
    h->clock_at = h->work_left;
    h->late = (h->o->deadline_ns && pb_clock_ns() > h->o->deadline_ns) ||
              (h->o->cancelled && atomic_load(h->o->cancelled));
    return !h->late;
}

static void note_limits(struct pb_heap_look *h)
{
    if (h->late)
        h->ret->note = "not all of it was looked at: the time was up";
    else if (!h->work_left || h->large.n >= h->large_max)
        h->ret->note = "not all of it was looked at: its tables lead to more than it has in memory";
}

/* Holders are looked for where all copies can be kept: else each step would read memory anew. */
static void find_holders(struct pb_heap_look *h, const struct pb_target_view *view)
{
    struct pb_heap_root *roots;
    size_t n;

    if (!h->ret->ncontainers && !h->o->type)
        return;
    if (h->ret->allocator_bytes > h->copy.limit) {
        h->ret->note = "holders were not looked for: the heap is larger than the memory for copies";
        return;
    }
    n = pb_heap_roots(h, view, &roots);
    if (h->o->own)
        pb_heap_add_own(h, roots, n);
    pb_heap_reach(h, roots, n);
}

static int look(struct pb_heap_look *h, const struct pb_target_view *view, struct pb_err *err)
{
    if (h->py->gc_head == PB_NONE)
        return pb_err_set(err, PB_FAIL, "the heap of Python %d.%d is not known", h->py->major,
                          h->py->minor);
    if ((h->py->free_threaded ? pb_heap_segments(h, err) : pb_heap_arenas(h, err)) < 0)
        return -1;
    pb_heap_gc_lists(h);
    pb_heap_drain(h);
    if (!h->ret->how)
        h->ret->how = "lists of the collector";
    list_types(h);
    list_containers(h);
    if (!h->ret->objects)
        return pb_err_set(err, PB_FAIL, "no Python object was found in its memory");
    find_holders(h, view);
    note_limits(h);
    return 0;
}

static void finish(struct pb_heap_look *h)
{
    pb_heap_kinds_finish(h);
    pb_heap_set_finish(&h->large);
    free(h->small);
    free(h->queue);
    pb_copy_finish(&h->copy);
    pb_arena_finish(&h->types);
}

int pb_heap_read_view(const struct pb_target_view *view, const struct pb_heap_opts *o,
                      struct pb_arena *a, struct pb_heap *ret, struct pb_err *err)
{
    uint64_t began = pb_clock_ns();
    struct pb_heap_look h = {.o = o, .a = a, .ret = ret, .loc = view->loc,
                             .py = &view->loc->layout};
    int rc;

    memset(ret, 0, sizeof *ret);
    h.top = PB_NEW_N(a, struct pb_heap_candidate, o->containers + 1);
    set_limits(&h, view);
    h.reader = (struct pb_py_reader){.mem = &h.copy.mem, .py = h.py, .arena = &h.types};
    pb_py_reader_prepare(&h.reader);
    h.src.r = &h.reader;
    rc = look(&h, view, err);
    ret->copied_bytes = h.copy.total;
    ret->seconds = (double)(pb_clock_ns() - began) / 1e9;
    finish(&h);
    return rc < 0 && view->pid ? pb_err_prefix(err, "%d", (int)view->pid) : rc;
}

int pb_heap_read(struct pb_target *t, const struct pb_heap_opts *o, struct pb_arena *a,
                 struct pb_heap *ret, struct pb_err *err)
{
    struct pb_target_view view;

    memset(ret, 0, sizeof *ret);
    return pb_target_view(t, a, &view, err) < 0 ? -1 : pb_heap_read_view(&view, o, a, ret, err);
}
