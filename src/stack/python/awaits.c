#include "stack/python/awaits.h"

#include <string.h>

#include "stack/python/locals.h"
#include "stack/values/object.h"
#include "stack/values/pointer.h"

#define DEPTH_MAX 32
#define TASK_WORDS 32 /* of a task in which its coroutine is looked for */

struct walk {
    struct pb_py_codes *c;
    struct pb_py_reader r;
    struct pb_py_await *v; /* outermost first */
    size_t n;
};

static const char *type_of(struct walk *w, uint64_t obj)
{
    const char *name = pb_py_plausible(obj) ? pb_py_type_name(&w->r, obj) : "";
    const char *dot = strrchr(name, '.');

    return dot ? dot + 1 : name;
}

/* What lies on top of a suspended frame's stack; 0: nothing. */
static uint64_t top_of(struct walk *w, uint64_t frame)
{
    const struct pb_py_layout *py = w->r.py;
    uint64_t top = 0;
    uint32_t n = 0;

    if (py->f_stackpointer != PB_NONE) {
        if (!pb_mem_u64(w->r.mem, frame + (uint64_t)py->f_stackpointer, &top) || top < 8)
            return 0;
        top -= 8;
    } else {
        /* The number of slots in use stands behind the instruction. */
        if (!pb_mem_u32(w->r.mem, frame + (uint64_t)py->f_lasti + 8, &n) || n == 0 || n > 4096)
            return 0;
        top = frame + (uint64_t)py->f_localsplus + (n - 1) * 8u;
    }
    return pb_mem_u64(w->r.mem, top, &top) ? pb_py_untag(py, top) : 0;
}

static bool add_frame(struct walk *w, uint64_t frame)
{
    struct pb_py_copy copy = {.frame = frame};
    struct pb_py_raw_stack s = {0};
    struct pb_py_code *code;

    pb_py_walk(w->r.mem, w->r.py, &copy, w->r.arena, &s);
    code = s.n ? pb_py_code_get(w->c, s.v[0].code) : NULL;
    if (!code || w->n == DEPTH_MAX)
        return false;
    w->v[w->n++] = (struct pb_py_await){code->func, code->file,
                                        pb_py_code_position(w->c, code, &s.v[0]).line};
    return true;
}

/* A task keeps its coroutine in one of its first words. */
static uint64_t coroutine_of(struct walk *w, uint64_t task)
{
    uint64_t words[TASK_WORDS];

    if (!pb_mem_get(w->r.mem, task, words, sizeof words))
        return 0;
    for (size_t i = 2; i < TASK_WORDS; i++)
        if (strcmp(type_of(w, words[i]), "coroutine") == 0)
            return words[i];
    return 0;
}

/* gather(): the first of its tasks. */
static uint64_t first_child(struct walk *w, uint64_t future)
{
    uint64_t list = pb_py_instance_get(&w->r, future, "_children"), items, first;

    if (!pb_py_plausible(list) ||
        !pb_mem_u64(w->r.mem, list + (uint64_t)w->r.py->list_items, &items) ||
        !pb_mem_u64(w->r.mem, items, &first))
        return 0;
    return first;
}

/* From what is awaited to the coroutine behind it; 0: a future that somebody must complete. */
static uint64_t next(struct walk *w, uint64_t obj)
{
    const char *type = type_of(w, obj);
    uint64_t inner = 0;

    if (strcmp(type, "coroutine") == 0)
        return obj;
    if (strcmp(type, "coroutine_wrapper") == 0 || strcmp(type, "FutureIter") == 0) {
        if (!pb_mem_u64(w->r.mem, obj + (uint64_t)w->r.py->ob_head, &inner))
            return 0;
        return next(w, inner);
    }
    if (strcmp(type, "Task") == 0)
        return coroutine_of(w, obj);
    if (strcmp(type, "_GatheringFuture") == 0)
        return coroutine_of(w, first_child(w, obj));
    return 0;
}

static void follow(struct walk *w, uint64_t obj)
{
    for (int i = 0; i < DEPTH_MAX; i++) {
        uint64_t coroutine = next(w, obj), frame = coroutine + (uint64_t)w->r.py->gen_frame;

        if (!coroutine || !add_frame(w, frame))
            return;
        obj = top_of(w, frame);
    }
}

static uint64_t find_slot(struct walk *w, struct pb_py_code *code, const struct pb_py_raw_frame *f,
                          const char *name)
{
    struct pb_py_slot *slots;
    size_t n = pb_py_slots(w->c, code, f, w->r.arena, &slots);

    for (size_t i = 0; i < n; i++)
        if (strcmp(slots[i].name, name) == 0)
            return slots[i].ref;
    return 0;
}

size_t pb_py_awaits(struct pb_py_codes *c, const struct pb_py_raw_stack *s,
                    struct pb_py_code *const *codes, struct pb_arena *a, struct pb_py_await **ret)
{
    struct walk w = {.c = c, .r = c->reader};

    w.r.arena = a;
    w.v = PB_NEW_N(a, struct pb_py_await, DEPTH_MAX);
    for (size_t i = 0; codes && c->reader.py->gen_frame != PB_NONE && i < s->n; i++)
        if (codes[i] && codes[i]->name && strcmp(codes[i]->name, "run_until_complete") == 0) {
            follow(&w, find_slot(&w, codes[i], &s->v[i], "future"));
            break;
        }
    *ret = PB_NEW_N(a, struct pb_py_await, w.n + 1);
    for (size_t i = 0; i < w.n; i++)
        (*ret)[i] = w.v[w.n - 1 - i];
    return w.n;
}
