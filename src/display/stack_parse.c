/* The inverse of stack_json.c. */
#include <string.h>

#include "host/text/json.h"
#include "display/stack.h"

enum { DEPTH_MAX = 64, NUMBER_MAX = 1 << 30 };

struct reading {
    struct pb_arena *a;
    struct pb_stack_process *v;
    struct pb_tree_process **family; /* each process's place in the tree */
    size_t n;
};

static int number(const struct pb_json *object, const char *key, int default_value)
{
    int64_t v = pb_json_whole(object, key, default_value);

    return v < -1 || v > NUMBER_MAX ? default_value : (int)v;
}

/* Printed as it is, as what the kernel and this tool say. */
static const char *plain(struct reading *r, const struct pb_json *object, const char *key)
{
    const char *s = pb_json_str(object, key, NULL);

    return s ? pb_text_clean(r->a, s) : NULL;
}

static size_t items_of(const struct pb_json *object, const char *key, enum pb_json_type type,
                       const struct pb_json **ret)
{
    const struct pb_json *list = pb_json_get(object, key);

    if (!list || list->type != type)
        return 0;
    *ret = list->items;
    return list->n;
}

static bool is_argument(const struct pb_json *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (names[i].type == PB_J_STRING && strcmp(names[i].s, name) == 0)
            return true;
    return false;
}

static void read_locals(struct reading *r, const struct pb_json *j, struct pb_frame *f)
{
    const struct pb_json *values = NULL, *names = NULL;
    size_t n = items_of(j, "locals", PB_J_OBJECT, &values);
    size_t nnames = items_of(j, "arguments", PB_J_ARRAY, &names);

    f->locals = PB_NEW_N(r->a, struct pb_local, n + 1);
    for (size_t i = 0; i < n; i++)
        if (values[i].type == PB_J_STRING)
            f->locals[f->nlocals++] = (struct pb_local){
                values[i].key, values[i].s, is_argument(names, nnames, values[i].key)};
}

static void read_frame(struct reading *r, const struct pb_json *j, struct pb_frame *f)
{
    *f = (struct pb_frame){
        .depth = (size_t)number(j, "depth", 0),
        .native = strcmp(pb_json_str(j, "frame_type", ""), "native") == 0,
        .func = pb_json_str(j, "func", "?"),
        .file = pb_json_str(j, "file", NULL),
        .lineno = number(j, "lineno", 0),
        .end_lineno = number(j, "end_lineno", 0),
        .col_offset = number(j, "col_offset", -1),
        .end_col_offset = number(j, "end_col_offset", -1),
        .source = pb_json_str(j, "source", NULL),
        .indentation = number(j, "indentation", -1),
        .interpreter = number(j, "interpreter", 0),
        .module = pb_json_str(j, "module", NULL),
        .offset = (uint64_t)pb_json_whole(j, "offset", 0),
    };
    /* A C function's file is its library where no source is known. */
    if (f->native && f->file && f->module && strcmp(f->file, f->module) == 0)
        f->file = NULL;
    read_locals(r, j, f);
}

static enum pb_state state_of(const char *name)
{
    for (int i = 0; i <= PB_STOPPED; i++)
        if (strcmp(name, pb_state_name((enum pb_state)i)) == 0)
            return (enum pb_state)i;
    return PB_WAITING;
}

static void read_thread(struct reading *r, const struct pb_json *j, struct pb_thread *t)
{
    const struct pb_json *frames = NULL;
    size_t n = items_of(j, "frames", PB_J_ARRAY, &frames);

    *t = (struct pb_thread){
        .tid = number(j, "tid", 0),
        .ns_tid = number(j, "ns_tid", 0),
        .name = pb_json_str(j, "name", NULL),
        .python = pb_json_flag(j, "is_python", true),
        .is_main = pb_json_flag(j, "is_main", false),
        .holds_gil = pb_json_flag(j, "holds_gil", false),
        .interpreter = number(j, "interpreter", 0),
        .collecting = pb_json_flag(j, "collecting_garbage", false),
        .state = state_of(pb_json_str(j, "state", "")),
        .wait = plain(r, j, "wait"),
        .torn = pb_json_flag(j, "torn", false),
        .pause_us = pb_json_number(j, "pause_us", 0),
        .note = plain(r, j, "note"),
        .frames = PB_NEW_N(r->a, struct pb_frame, n + 1),
        .nframes = n,
        .total = (size_t)number(j, "total", 0),
        .elided = (size_t)number(j, "elided", 0),
    };
    for (size_t i = 0; i < n; i++) {
        read_frame(r, &frames[i], &t->frames[i]);
        if (t->elided && i && t->frames[i].depth > t->frames[i - 1].depth + 1)
            t->cut_at = i;
    }
}

static struct pb_snapshot *read_snapshot(struct reading *r, const struct pb_json *j)
{
    const struct pb_json *threads = NULL;
    struct pb_snapshot *s = PB_NEW(r->a, struct pb_snapshot);

    *s = (struct pb_snapshot){
        .pid = number(j, "pid", 0),
        .ns_pid = number(j, "ns_pid", 0),
        .python = plain(r, j, "python"),
        .how = plain(r, j, "found_by"),
        .free_threaded = pb_json_flag(j, "free_threaded", false),
        .shutting_down = pb_json_flag(j, "shutting_down", false),
        .pause_us = pb_json_number(j, "pause_us", 0),
        .total_us = pb_json_number(j, "took_us", 0),
        .nthreads = items_of(j, "threads", PB_J_ARRAY, &threads),
    };
    s->threads = PB_NEW_N(r->a, struct pb_thread, s->nthreads + 1);
    for (size_t i = 0; i < s->nthreads; i++)
        read_thread(r, &threads[i], &s->threads[i]);
    return s;
}

/* A parent stands in front of its children; each is the last one until another comes. */
static void place(struct reading *r, struct pb_tree_process *p)
{
    for (size_t i = r->n; p->parent && i-- > 0;) {
        struct pb_tree_process *other = r->family[i];

        if (other->parent == p->parent)
            other->is_last = false;
        if (other->pid != p->parent)
            continue;
        p->depth = other->depth < DEPTH_MAX ? other->depth + 1 : DEPTH_MAX;
        break;
    }
}

static struct pb_tree_process *read_family(struct reading *r, const struct pb_json *j)
{
    struct pb_tree_process *p = PB_NEW(r->a, struct pb_tree_process);

    *p = (struct pb_tree_process){
        .pid = number(j, "pid", 0),
        .parent = number(j, "parent", 0),
        .is_last = true,
        .is_python = pb_json_get(j, "python") || pb_json_str(j, "error", NULL),
        .command = pb_json_str(j, "command", ""),
        .rank = number(j, "rank", -1),
        .world_size = number(j, "world_size", -1),
    };
    place(r, p);
    return p;
}

/* All of them are in a tree, or none. */
static void read_process(struct reading *r, const struct pb_json *j)
{
    struct pb_stack_process *p = &r->v[r->n];
    bool in_tree = pb_json_get(j, "parent");

    *p = (struct pb_stack_process){0};
    if (r->n && in_tree != (r->family[0] != NULL))
        return;
    if (in_tree)
        p->family = r->family[r->n] = read_family(r, j);
    if (pb_json_str(j, "python", NULL))
        p->snapshot = read_snapshot(r, j);
    else
        pb_err_set(&p->err, PB_FAIL, "%s", pb_text_clean(r->a, pb_json_str(j, "error", "?")));
    r->n += in_tree || p->snapshot;
}

int pb_stack_parse(const char *text, size_t len, struct pb_arena *a, struct pb_stack_process **ret,
                   size_t *ret_n, struct pb_err *err)
{
    struct reading r = {.a = a};
    const char *end = text + len, *stop;
    size_t lines = 1;

    for (const char *p = text; p < end; p++)
        lines += *p == '\n';
    r.v = PB_NEW_N(a, struct pb_stack_process, lines);
    r.family = PB_NEW_N(a, struct pb_tree_process *, lines);
    for (const char *p = text; p < end; p = stop + 1) {
        struct pb_json line = {0};

        stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        if (stop == p)
            continue;
        if (pb_json_parse(a, p, (size_t)(stop - p), &line, err) < 0)
            return -1;
        read_process(&r, &line);
    }
    *ret = r.v;
    *ret_n = r.n;
    return 0;
}
