/* roots.c - the variables of a program: of its modules, and the local ones of its threads. */
#include <stdlib.h>

#include "heap/reach.h"
#include "host/text/alloc.h"
#include "stack/python/threads.h"

#define INTERPS_MAX 4096
#define NAME_MAX 256
#define FRAMES_MAX 200 /* of one thread whose variables are taken */

struct list {
    struct pb_heap_look *h;
    struct pb_heap_root *v;
    size_t n, cap;
};

static void add(struct list *l, uint64_t addr, const char *text, bool is_local)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->v = pb_alloc_resize(l->v, l->cap * sizeof *l->v);
    }
    l->v[l->n++] = (struct pb_heap_root){addr, text, is_local};
}

static void add_module(void *arg, uint64_t ref, enum pb_heap_label label, uint64_t name)
{
    struct list *l = arg;
    char *text;

    if (label != PB_HEAP_KEY)
        return;
    l->h->src.reads = PB_PY_READS_MAX;
    text = pb_py_str_at(&l->h->src, name, NAME_MAX);
    if (text)
        add(l, ref, pb_arena_strdup(l->h->a, text), false);
}

static void add_modules(struct list *l)
{
    struct pb_heap_look *h = l->h;
    uint64_t interp = 0, dict;

    if (h->py->interp_modules == PB_NONE)
        return;
    pb_copy_u64(&h->copy, h->loc->interp_head, &interp);
    for (int i = 0; pb_py_is_ptr(interp) && i < INTERPS_MAX; i++) {
        struct pb_heap_kind *k;
        const uint8_t *p;

        if (pb_copy_u64(&h->copy, interp + (uint64_t)h->py->interp_modules, &dict) &&
            pb_py_is_ptr(dict) && (p = pb_copy_at(&h->copy, dict, (size_t)h->py->ob_head)) &&
            pb_heap_is_object(h, p, SIZE_MAX, &k) && k->rule == PB_HEAP_DICT)
            pb_heap_each_ref(h, dict, k, add_module, l);
        if (!pb_copy_u64(&h->copy, interp + (uint64_t)h->py->interp_next, &interp))
            return;
    }
}

/* The program's own variables are the first place where somebody looks. */
static void put_main_first(struct list *l)
{
    for (size_t i = 1; i < l->n; i++) {
        if (strcmp(l->v[i].text, "__main__") == 0) {
            struct pb_heap_root swap = l->v[i];

            l->v[i] = l->v[0];
            l->v[0] = swap;
            return;
        }
    }
}

static void add_frame(struct list *l, const struct pb_target_view *view,
                      const struct pb_py_raw_frame *f)
{
    struct pb_arena *a = l->h->a;
    struct pb_py_code *code = f->shim ? NULL : pb_py_code_get(view->codes, f->code);
    struct pb_py_slot *slots;
    const char *file;
    size_t n;
    int line;

    if (!code)
        return;
    file = strrchr(code->file, '/');
    file = file ? file + 1 : code->file;
    line = pb_py_code_position(view->codes, code, f).line;
    n = pb_py_slots(view->codes, code, f, a, &slots);
    for (size_t i = 0; i < n; i++)
        add(l, slots[i].ref,
            pb_arena_printf(a, "%s() at %s:%d: %s", code->func, file, line, slots[i].name), true);
}

static void add_frames(struct list *l, const struct pb_target_view *view)
{
    struct pb_heap_look *h = l->h;
    struct pb_py_threads threads;

    pb_py_threads_read(view->loc, view->mem, view->pid, view->tids, view->ntids, h->a, &threads);
    for (size_t i = 0; i < threads.n; i++) {
        struct pb_py_copy copy;
        struct pb_py_raw_stack stack;

        if (!pb_py_copy_thread(view->mem, h->py, threads.v[i].tstate, h->a, &copy))
            continue;
        pb_py_walk(view->mem, h->py, &copy, h->a, &stack);
        stack.n = stack.n < FRAMES_MAX ? stack.n : FRAMES_MAX;
        pb_py_copy_locals(view->mem, h->py, stack.n, 0, h->a, &stack);
        for (size_t k = 0; k < stack.n; k++)
            add_frame(l, view, &stack.v[k]);
    }
}

size_t pb_heap_roots(struct pb_heap_look *h, const struct pb_target_view *view,
                     struct pb_heap_root **ret)
{
    struct list l = {.h = h};

    add_modules(&l);
    put_main_first(&l);
    add_frames(&l, view);
    *ret = PB_NEW_N(h->a, struct pb_heap_root, l.n + 1);
    if (l.n)
        memcpy(*ret, l.v, l.n * sizeof *l.v);
    free(l.v);
    return l.n;
}
