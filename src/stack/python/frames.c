#include "stack/python/frames.h"

#include <string.h>

#include "stack/values/pointer.h"

/* Chunks have 16 KiB; one that holds a huge frame may be larger. */
#define CHUNK_MAX (256u << 10)
#define CHUNK_HEAD 24 /* previous, size, top */
/* Slots copied behind a frame that lies outside the chunk. */
#define LOCALS_MAX 1024

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Bytes of a frame that the walk needs. */
static size_t fixed_size(const struct pb_py_layout *py)
{
    int last = max_int(max_int(py->f_back, py->f_code), py->f_lasti);

    last = max_int(max_int(last, py->f_owner), max_int(py->f_is_entry, py->f_tlbc_index));
    return (size_t)last + 8;
}

/* The data stack chunk: {previous, size, top, data…}; only the newest is copied whole. */
static void copy_chunk(struct pb_mem *mem, struct pb_arena *a, struct pb_py_copy *c)
{
    uint64_t head[3];

    if (!pb_py_plausible(c->chunk) || !pb_mem_get(mem, c->chunk, head, sizeof head) ||
        head[1] < CHUNK_HEAD || head[1] > CHUNK_MAX)
        return;
    if (!c->chunk_bytes || c->chunk_len != head[1]) {
        c->chunk_bytes = pb_arena_alloc(a, head[1]);
        c->chunk_len = head[1];
    }
    if (!pb_mem_get(mem, c->chunk, c->chunk_bytes, c->chunk_len))
        c->chunk_len = 0;
}

/* 3.11 and 3.12 reach the frame through a record of each C-level run, newest first. */
static bool copy_cframe(struct pb_mem *mem, const struct pb_py_layout *py, struct pb_py_copy *c)
{
    uint64_t previous = 0;
    struct pb_mem_range r[2] = {
        {c->cframe + (uint64_t)py->cframe_current, &c->frame, 8},
        {c->cframe + (uint64_t)py->cframe_previous, &previous, 8},
    };

    if (mem->read(mem, r, 2) != 2)
        return false;
    c->nested = previous != 0;
    return !previous || pb_mem_u64(mem, previous + (uint64_t)py->cframe_current, &c->outer);
}

bool pb_py_copy_thread(struct pb_mem *mem, const struct pb_py_layout *py, uint64_t tstate,
                       struct pb_arena *a, struct pb_py_copy *ret)
{
    struct pb_mem_range r[2];
    size_t n = 0;

    memset(ret, 0, sizeof *ret);
    ret->tstate = tstate;
    if (py->ts_cframe != PB_NONE)
        r[n++] = (struct pb_mem_range){tstate + (uint64_t)py->ts_cframe, &ret->cframe, 8};
    else
        r[n++] = (struct pb_mem_range){tstate + (uint64_t)py->ts_frame, &ret->frame, 8};
    if (py->ts_chunk != PB_NONE)
        r[n++] = (struct pb_mem_range){tstate + (uint64_t)py->ts_chunk, &ret->chunk, 8};
    if (mem->read(mem, r, n) != n)
        return false;
    if (py->ts_cframe != PB_NONE && !copy_cframe(mem, py, ret))
        return false;
    if (ret->chunk && ret->frame)
        copy_chunk(mem, a, ret);
    return true;
}

bool pb_py_copy_again(struct pb_mem *mem, const struct pb_py_layout *py, struct pb_arena *a,
                      struct pb_py_copy *copy)
{
    struct pb_py_copy now = *copy;
    uint64_t previous = 0;
    struct pb_mem_range r[5];
    size_t n = 0;

    if (!copy->chunk_len || !copy->chunk)
        return pb_py_copy_thread(mem, py, copy->tstate, a, copy);
    r[n++] = (struct pb_mem_range){copy->tstate + (uint64_t)py->ts_chunk, &now.chunk, 8};
    r[n++] = (struct pb_mem_range){copy->chunk, copy->chunk_bytes, copy->chunk_len};
    if (py->ts_cframe != PB_NONE) {
        r[n++] = (struct pb_mem_range){copy->tstate + (uint64_t)py->ts_cframe, &now.cframe, 8};
        r[n++] = (struct pb_mem_range){copy->cframe + (uint64_t)py->cframe_current, &now.frame, 8};
        r[n++] = (struct pb_mem_range){copy->cframe + (uint64_t)py->cframe_previous, &previous, 8};
    } else {
        r[n++] = (struct pb_mem_range){copy->tstate + (uint64_t)py->ts_frame, &now.frame, 8};
    }
    if (mem->read(mem, r, n) != n || now.chunk != copy->chunk || now.cframe != copy->cframe)
        return pb_py_copy_thread(mem, py, copy->tstate, a, copy);
    now.nested = previous != 0;
    if (previous && !pb_mem_u64(mem, previous + (uint64_t)py->cframe_current, &now.outer))
        return false;
    *copy = now;
    return true;
}

static uint64_t get_u64(const uint8_t *bytes, int at)
{
    uint64_t v;

    memcpy(&v, bytes + at, sizeof v);
    return v;
}

static void parse(const struct pb_py_layout *py, struct pb_py_raw_frame *f)
{
    const uint8_t *b = f->bytes;

    f->back = get_u64(b, py->f_back);
    f->code = get_u64(b, py->f_code);
    if (py->tagged)
        f->code &= ~(uint64_t)3;
    if (py->f_instr_is_pointer) {
        f->instr = get_u64(b, py->f_lasti);
    } else {
        int32_t index;

        memcpy(&index, b + py->f_lasti, sizeof index);
        f->instr = (uint64_t)(int64_t)index;
    }
    if (py->f_owner != PB_NONE)
        f->owner = b[py->f_owner];
    if (py->f_is_entry != PB_NONE)
        f->is_entry = b[py->f_is_entry] != 0;
    if (py->f_tlbc_index != PB_NONE && py->free_threaded)
        memcpy(&f->tlbc, b + py->f_tlbc_index, sizeof f->tlbc);
    f->shim = py->f_owner != PB_NONE &&
              (f->owner == py->owner_shim || f->owner == py->owner_shim2);
}

static bool load(struct pb_mem *mem, const struct pb_py_layout *py, const struct pb_py_copy *copy,
                 uint64_t addr, struct pb_arena *a, struct pb_py_raw_frame *f)
{
    size_t need = fixed_size(py);

    memset(f, 0, sizeof *f);
    f->addr = addr;
    if (addr >= copy->chunk && addr - copy->chunk < copy->chunk_len &&
        copy->chunk_len - (addr - copy->chunk) >= need) {
        f->bytes = copy->chunk_bytes + (addr - copy->chunk);
        f->len = copy->chunk_len - (addr - copy->chunk);
    } else {
        uint8_t *buf = pb_arena_alloc(a, need);

        if (!pb_mem_get(mem, addr, buf, need))
            return false;
        f->bytes = buf;
        f->len = need;
    }
    parse(py, f);
    return true;
}

/*
 * From 3.11 on every chain ends at the start of a C-level run. A generator that
 * is about to yield may already be cut off from its caller while it still counts
 * as the innermost frame: the compiler is free to order the two stores so.
 */
static bool ends_at_root(const struct pb_py_layout *py, const struct pb_py_raw_stack *s)
{
    const struct pb_py_raw_frame *last;

    if (!s->n)
        return true;
    last = &s->v[s->n - 1];
    if (py->f_is_entry != PB_NONE)
        return last->is_entry;
    return py->f_owner == PB_NONE || last->shim;
}

/*
 * An evaluator that has just begun is the newest one before it says which frame
 * it runs: until then the word is whatever was left on the C stack. The frame
 * that begins its run must follow the caller's innermost one.
 */
static bool follows_caller(const struct pb_py_copy *copy, const struct pb_py_raw_stack *s)
{
    if (!copy->nested)
        return true;
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].is_entry || s->v[i].shim)
            return s->v[i].back == copy->outer;
    return false;
}

void pb_py_walk(struct pb_mem *mem, const struct pb_py_layout *py, const struct pb_py_copy *copy,
                struct pb_arena *a, struct pb_py_raw_stack *ret)
{
    uint64_t addr = copy->frame, mark = 0;
    size_t cap = 0, next_mark = 1;

    memset(ret, 0, sizeof *ret);
    while (addr) {
        if (!pb_py_plausible(addr) || addr == mark || ret->n >= PB_PY_FRAMES_MAX)
            return;
        if (ret->n == next_mark) { /* Brent: a cycle comes back to the mark */
            mark = addr;
            next_mark *= 2;
        }
        if (ret->n == cap) {
            size_t size = sizeof *ret->v;

            ret->v = pb_arena_grow(a, ret->v, cap * size, (cap ? cap * 2 : 64) * size);
            cap = cap ? cap * 2 : 64;
        }
        if (!load(mem, py, copy, addr, a, &ret->v[ret->n]))
            return;
        addr = ret->v[ret->n++].back;
    }
    ret->complete = ends_at_root(py, ret) && follows_caller(copy, ret);
    /* The frame at the base of the thread state belongs to no run of the evaluator. */
    if (py->ts_base_frame != PB_NONE && ret->n && ret->v[ret->n - 1].shim)
        ret->n--;
}

static bool has_not_run(const struct pb_py_layout *py, const struct pb_py_raw_frame *f)
{
    uint64_t first = f->code + (uint64_t)py->co_code;

    return f->instr < first && first - f->instr <= 2;
}

bool pb_py_just_begun(const struct pb_py_layout *py, const struct pb_py_raw_stack *stack)
{
    if (!py->f_instr_is_pointer || py->f_instr_is_next)
        return false;
    for (size_t i = 0; i < stack->n && !stack->v[i].shim; i++) {
        if (has_not_run(py, &stack->v[i]))
            return true;
        if (stack->v[i].is_entry)
            return false;
    }
    return false;
}

/* Copies as much behind a frame as is readable, up to LOCALS_MAX. */
static void extend(struct pb_mem *mem, const struct pb_py_layout *py, struct pb_arena *a,
                   struct pb_py_raw_frame *f)
{
    size_t want = (size_t)py->f_localsplus + LOCALS_MAX;
    size_t to_page = 4096 - (f->addr & 4095);
    uint8_t *buf;

    if (f->len >= want)
        return;
    buf = pb_arena_alloc(a, want);
    if (!pb_mem_get(mem, f->addr, buf, want)) {
        while (to_page + 4096 < want)
            to_page += 4096;
        want = to_page;
        if (want <= f->len || !pb_mem_get(mem, f->addr, buf, want))
            return;
    }
    f->bytes = buf;
    f->len = want;
}

void pb_py_middle(const struct pb_py_raw_stack *stack, size_t head, size_t tail, size_t *ret_from,
                  size_t *ret_to)
{
    size_t from = 0, to = stack->n;

    while (from < stack->n && (head || stack->v[from].shim))
        head -= !stack->v[from++].shim;
    while (to > from && (tail || stack->v[to - 1].shim))
        tail -= !stack->v[--to].shim;
    *ret_from = from;
    *ret_to = to;
}

void pb_py_copy_locals(struct pb_mem *mem, const struct pb_py_layout *py, size_t head, size_t tail,
                       struct pb_arena *a, struct pb_py_raw_stack *stack)
{
    size_t from, to;

    pb_py_middle(stack, head, tail, &from, &to);
    for (size_t i = 0; i < stack->n; i++) {
        if (i >= from && i < to)
            continue;
        if (!stack->v[i].shim && stack->v[i].len < (size_t)py->f_localsplus + LOCALS_MAX)
            extend(mem, py, a, &stack->v[i]);
    }
}
