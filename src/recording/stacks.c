#include "recording/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "host/text/alloc.h"

#define FIRST_SLOTS 1024
/* Of the empty stack; what follows from it is in files of history. */
#define ROOT_ID PB_HASH_SEED

void pb_stacks_init(struct pb_stacks *s)
{
    memset(s, 0, sizeof *s);
    s->nodes_cap = 256;
    s->nodes = pb_alloc_resize(NULL, s->nodes_cap * sizeof *s->nodes);
    s->nodes[s->nnodes++] = (struct pb_prof_node){0, UINT32_MAX, ROOT_ID};
}

void pb_stacks_finish(struct pb_stacks *s)
{
    free(s->frames);
    free(s->nodes);
    free(s->by_frame.slot);
    free(s->by_node.slot);
    pb_arena_finish(&s->arena);
    memset(s, 0, sizeof *s);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static uint64_t hash_text(uint64_t h, const char *s)
{
    return mix(pb_hash_text(h, s), 0);
}

static uint64_t hash_frame(const struct pb_prof_frame *f)
{
    uint64_t h = hash_text(hash_text(PB_HASH_SEED, f->func), f->file);

    return mix(h, (uint64_t)f->lineno * 2 + f->native);
}

static uint64_t hash_node(const struct pb_prof_node *n)
{
    return mix(mix(PB_HASH_SEED, n->parent), n->frame);
}

static uint64_t id_of(uint64_t parent, const struct pb_prof_frame *f)
{
    uint64_t id = mix(mix(parent, hash_frame(f)), 1);

    return id ? id : 1;
}

static bool same_frame(const struct pb_prof_frame *x, const struct pb_prof_frame *y)
{
    return x->lineno == y->lineno && x->native == y->native && strcmp(x->func, y->func) == 0 &&
           strcmp(x->file, y->file) == 0;
}

static void put(struct pb_prof_index *ix, uint64_t hash, uint32_t number)
{
    size_t i = hash & (ix->cap - 1);

    while (ix->slot[i])
        i = (i + 1) & (ix->cap - 1);
    ix->slot[i] = number + 1;
}

/* Makes room for one more entry; true: the index was emptied and must be filled again. */
static bool reserve(struct pb_prof_index *ix, size_t n)
{
    if (ix->cap && n * 2 < ix->cap)
        return false;
    ix->cap = ix->cap ? ix->cap * 2 : FIRST_SLOTS;
    ix->slot = pb_alloc_resize(ix->slot, ix->cap * sizeof *ix->slot);
    memset(ix->slot, 0, ix->cap * sizeof *ix->slot);
    return true;
}

/* The number of a frame, UINT32_MAX when the table is full. */
static uint32_t frame_number(struct pb_stacks *s, const struct pb_prof_frame *f)
{
    uint64_t hash = hash_frame(f);
    size_t i;

    if (reserve(&s->by_frame, s->nframes + 1))
        for (size_t n = 0; n < s->nframes; n++)
            put(&s->by_frame, hash_frame(&s->frames[n]), (uint32_t)n);
    for (i = hash & (s->by_frame.cap - 1); s->by_frame.slot[i];
         i = (i + 1) & (s->by_frame.cap - 1))
        if (same_frame(&s->frames[s->by_frame.slot[i] - 1], f))
            return s->by_frame.slot[i] - 1;
    if (s->nframes >= PB_STACKS_MAX)
        return UINT32_MAX;
    if (s->nframes == s->frames_cap) {
        s->frames_cap = s->frames_cap ? s->frames_cap * 2 : 256;
        s->frames = pb_alloc_resize(s->frames, s->frames_cap * sizeof *s->frames);
    }
    s->frames[s->nframes] = (struct pb_prof_frame){
        pb_arena_strdup(&s->arena, f->func), pb_arena_strdup(&s->arena, f->file), f->lineno,
        f->native};
    s->by_frame.slot[i] = (uint32_t)s->nframes + 1;
    return (uint32_t)s->nframes++;
}

uint32_t pb_stacks_child(struct pb_stacks *s, uint32_t parent, const struct pb_prof_frame *frame)
{
    struct pb_prof_node node = {parent, frame_number(s, frame), 0};
    size_t i;

    if (node.frame == UINT32_MAX)
        return parent;
    if (reserve(&s->by_node, s->nnodes + 1))
        for (size_t n = 1; n < s->nnodes; n++)
            put(&s->by_node, hash_node(&s->nodes[n]), (uint32_t)n);
    for (i = hash_node(&node) & (s->by_node.cap - 1); s->by_node.slot[i];
         i = (i + 1) & (s->by_node.cap - 1)) {
        const struct pb_prof_node *n = &s->nodes[s->by_node.slot[i] - 1];

        if (n->parent == node.parent && n->frame == node.frame)
            return s->by_node.slot[i] - 1;
    }
    if (s->nnodes >= PB_STACKS_MAX)
        return parent;
    if (s->nnodes == s->nodes_cap) {
        s->nodes_cap *= 2;
        s->nodes = pb_alloc_resize(s->nodes, s->nodes_cap * sizeof *s->nodes);
    }
    node.id = id_of(s->nodes[parent].id, frame);
    s->nodes[s->nnodes] = node;
    s->by_node.slot[i] = (uint32_t)s->nnodes + 1;
    return (uint32_t)s->nnodes++;
}

static struct pb_prof_frame frame_of(const struct pb_frame *f, bool by_function,
                                     char unnamed[static 40])
{
    struct pb_prof_frame out = {f->func, f->file, f->lineno, f->native};

    if (f->native && !out.file)
        out.file = f->module;
    if (!out.func) { /* a native function without a symbol */
        static const char hex[] = "0123456789abcdef";
        char *p = unnamed;

        *p++ = '0', *p++ = 'x';
        for (int shift = 44; shift >= 0; shift -= 4)
            *p++ = hex[(f->offset >> shift) & 15];
        *p = '\0';
        out.func = unnamed;
    }
    if (!out.file)
        out.file = "";
    if (by_function)
        out.lineno = 0;
    return out;
}

uint32_t pb_stacks_add(struct pb_stacks *s, uint32_t root, const struct pb_thread *thread,
                       bool by_function)
{
    static const struct pb_prof_frame left_out = {"… frames left out …", "", 0, false};
    static const struct pb_prof_frame nothing = {"<no Python code>", "", 0, true};
    uint32_t node = root;
    char unnamed[40];

    if (!thread->nframes)
        return pb_stacks_child(s, root, &nothing);
    for (size_t i = thread->nframes; i-- > 0;) {
        struct pb_prof_frame f = frame_of(&thread->frames[i], by_function, unnamed);
        uint32_t next = pb_stacks_child(s, node, &f);

        if (next == node) {
            s->dropped++;
            break;
        }
        node = next;
        if (thread->elided && i == thread->cut_at)
            node = pb_stacks_child(s, node, &left_out);
    }
    return node;
}

const char *pb_stacks_short_file(const char *file)
{
    static const char *const roots[] = {"/site-packages/", "/dist-packages/", "/lib/python3"};
    const char *slash = strrchr(file, '/');

    if (file[0] != '/')
        return file;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const char *at = strstr(file, roots[i]);

        if (!at)
            continue;
        at = strchr(at + strlen("/lib/"), '/'); /* behind the version, or the folder's own end */
        if (at && at[1])
            return at + 1;
    }
    return slash[1] ? slash + 1 : file;
}
