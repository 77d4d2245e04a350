/*
 * Whole stacks in images of memory: thread, frames, code objects, lines and
 * local variables, for every layout; then chains that no interpreter would
 * leave behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stack/python/image.h"
#include "stack/python/layouts.h"
#include "stack/python/offsets.h"
#include "stack/python/code.h"
#include "stack/python/locals.h"

#define OWNER_THREAD 0

static uint8_t memory[1 << 17];

struct world {
    struct image img;
    const struct pb_py_layout *py;
    uint64_t t_str, t_bytes, t_tuple, t_int, t_code;
    uint64_t tstate;
};

static void world_init(struct world *w, const struct pb_py_layout *py)
{
    w->py = py;
    image_init(&w->img, py, memory, sizeof memory);
    w->t_str = image_type(&w->img, "str", PB_TP_STR);
    w->t_bytes = image_type(&w->img, "bytes", PB_TP_BYTES);
    w->t_tuple = image_type(&w->img, "tuple", PB_TP_TUPLE);
    w->t_int = image_type(&w->img, "int", PB_TP_LONG);
    w->t_code = image_type(&w->img, "code", 0);
    w->tstate = image_room(&w->img, 1024);
}

static void put(struct world *w, uint64_t addr, int at, uint64_t value)
{
    if (at != PB_NONE)
        image_word(&w->img, addr + (uint64_t)at, value);
}

static uint64_t make_bytes(struct world *w, const uint8_t *data, size_t n)
{
    uint64_t addr = image_object(&w->img, w->t_bytes, (size_t)w->py->bytes_data + n + 1);

    put(w, addr, w->py->ob_size, n);
    image_put(&w->img, addr + (uint64_t)w->py->bytes_data, data, n);
    return addr;
}

/* A table in which the instruction at offset 4 stands one line below the first. */
static uint64_t make_table(struct world *w)
{
    switch (w->py->lines) {
    case PB_LINES_LNOTAB_UNSIGNED:
    case PB_LINES_LNOTAB:
        return make_bytes(w, (const uint8_t[]){4, 1}, 2);
    case PB_LINES_TABLE_310:
        return make_bytes(w, (const uint8_t[]){4, 0, 4, 1}, 4);
    case PB_LINES_TABLE_311:
        return make_bytes(w, (const uint8_t[]){0xe9, 0, 0xe9, 2}, 4);
    }
    return 0;
}

static uint64_t make_code(struct world *w, const char *name, int line)
{
    const struct pb_py_layout *py = w->py;
    uint64_t addr = image_object(&w->img, w->t_code, (size_t)py->co_size + 64);
    uint64_t var = image_str(&w->img, w->t_str, "var");
    char qualname[64];
    int32_t first = line;

    snprintf(qualname, sizeof qualname, "Class.%s", name);
    put(w, addr, py->co_name, image_str(&w->img, w->t_str, name));
    put(w, addr, py->co_qualname, image_str(&w->img, w->t_str, qualname));
    put(w, addr, py->co_filename, image_str(&w->img, w->t_str, "job.py"));
    put(w, addr, py->co_linetable, make_table(w));
    put(w, addr, py->co_varnames, image_tuple(&w->img, w->t_tuple, &var, 1));
    image_put(&w->img, addr + (uint64_t)py->co_firstlineno, &first, sizeof first);
    return addr;
}

static uint64_t make_frame(struct world *w, uint64_t code, uint64_t back, int owner)
{
    const struct pb_py_layout *py = w->py;
    uint64_t addr = image_room(&w->img, (size_t)py->f_localsplus + 32);
    uint8_t own = (uint8_t)owner;

    put(w, addr, py->f_back, back);
    put(w, addr, py->f_code, code | (py->tagged ? 1 : 0));
    if (py->f_instr_is_pointer) {
        put(w, addr, py->f_lasti, code + (uint64_t)py->co_code + 4);
    } else {
        int32_t index = 4 / py->lasti_scale;

        image_put(&w->img, addr + (uint64_t)py->f_lasti, &index, sizeof index);
    }
    if (py->f_owner != PB_NONE)
        image_put(&w->img, addr + (uint64_t)py->f_owner, &own, 1);
    put(w, addr, py->f_localsplus, image_int(&w->img, w->t_int, 42));
    return addr;
}

static void set_entry(struct world *w, uint64_t frame)
{
    if (w->py->f_is_entry != PB_NONE)
        image_put(&w->img, frame + (uint64_t)w->py->f_is_entry, "\1", 1);
}

/* The end of a chain: a marker from 3.12 on, else nothing. */
static uint64_t make_root(struct world *w)
{
    const struct pb_py_layout *py = w->py;

    if (py->f_owner == PB_NONE || py->f_is_entry != PB_NONE)
        return 0;
    return make_frame(w, 0, 0, py->owner_shim);
}

static void set_current(struct world *w, uint64_t frame)
{
    const struct pb_py_layout *py = w->py;

    if (py->ts_cframe != PB_NONE) {
        uint64_t cframe = image_room(&w->img, 64);

        put(w, w->tstate, py->ts_cframe, cframe);
        put(w, cframe, py->cframe_current, frame);
    } else {
        put(w, w->tstate, py->ts_frame, frame);
    }
}

static void walk(struct world *w, struct pb_arena *a, struct pb_py_raw_stack *ret)
{
    struct pb_py_copy copy;

    assert_true(pb_py_copy_thread(&w->img.mem, w->py, w->tstate, a, &copy));
    pb_py_walk(&w->img.mem, w->py, &copy, a, ret);
}

static void check_stack(const struct pb_py_layout *py)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_raw_stack stack;
    struct pb_py_codes codes;
    struct pb_py_code *code;
    struct pb_local *locals;
    struct world w;
    uint64_t outer, inner;

    world_init(&w, py);
    outer = make_frame(&w, make_code(&w, "outer", 10), make_root(&w), OWNER_THREAD);
    set_entry(&w, outer);
    inner = make_frame(&w, make_code(&w, "inner", 20), outer, OWNER_THREAD);
    set_current(&w, inner);
    walk(&w, &a, &stack);
    assert_true(stack.complete);
    assert_int_equal(stack.n, make_root(&w) ? 3 : 2);
    pb_py_copy_locals(&w.img.mem, py, 10, 10, &a, &stack);

    pb_py_codes_init(&codes, &w.img.mem, py);
    code = pb_py_code_get(&codes, stack.v[0].code);
    assert_non_null(code);
    assert_string_equal(code->func, py->co_qualname == PB_NONE ? "inner" : "Class.inner");
    assert_string_equal(code->file, "job.py");
    assert_int_equal(pb_py_code_position(&codes, code, &stack.v[0]).line, 21);
    assert_int_equal(pb_py_locals(&codes, code, &stack.v[0], &a, &locals), 1);
    assert_string_equal(locals[0].name, "var");
    assert_string_equal(locals[0].value, "42");
    code = pb_py_code_get(&codes, stack.v[1].code);
    assert_non_null(code);
    assert_string_equal(code->name, "outer");
    assert_int_equal(pb_py_code_position(&codes, code, &stack.v[1]).line, 11);
    assert_ptr_equal(code, pb_py_code_get(&codes, stack.v[1].code));
    pb_py_codes_finish(&codes);
    pb_arena_finish(&a);
}

static struct pb_py_layout layout_of(void (*fill)(uint8_t *))
{
    uint8_t bytes[PB_DEBUG_OFFSETS_MAX] = {0};
    struct pb_py_layout l;

    fill(bytes);
    assert_int_equal(pb_py_layout_from_offsets(&l, bytes, sizeof bytes, NULL), 0);
    return l;
}

static void each_layout(void (*check)(const struct pb_py_layout *))
{
    void (*const fills[])(uint8_t *) = {offsets_313_bytes, offsets_313t_bytes, offsets_314_bytes,
                                        offsets_314t_bytes};

    for (int minor = 4; minor <= 12; minor++)
        check(kept_layout(3, minor, 9));
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        struct pb_py_layout l = layout_of(fills[i]);

        check(&l);
    }
}

static void test_every_layout_reads_its_stack(void **state)
{
    (void)state;
    each_layout(check_stack);
}

/* A chain that comes back to itself must end, and not count as whole. */
static void check_cycle(const struct pb_py_layout *py)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_raw_stack stack;
    struct world w;
    uint64_t first, frame;

    world_init(&w, py);
    first = frame = make_frame(&w, make_code(&w, "loop", 1), 0, OWNER_THREAD);
    for (int i = 0; i < 5; i++)
        frame = make_frame(&w, make_code(&w, "loop", 1), frame, OWNER_THREAD);
    put(&w, first, py->f_back, frame);
    set_current(&w, frame);
    walk(&w, &a, &stack);
    assert_false(stack.complete);
    assert_true(stack.n < 64);
    pb_arena_finish(&a);
}

static void test_a_cycle_ends(void **state)
{
    (void)state;
    each_layout(check_cycle);
}

/* From 3.11 on a chain that ends at an ordinary frame was cut off by a yield. */
static void check_cut(const struct pb_py_layout *py)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_raw_stack stack;
    struct world w;

    world_init(&w, py);
    set_current(&w, make_frame(&w, make_code(&w, "gen", 1), 0, py->owner_generator));
    walk(&w, &a, &stack);
    assert_int_equal(stack.n, 1);
    assert_true(stack.complete == (py->minor <= 10));
    pb_arena_finish(&a);
}

static void test_a_chain_without_its_root_is_torn(void **state)
{
    (void)state;
    each_layout(check_cut);
}

/* Two nested runs of the evaluator, of which the newer names a frame of its own choice. */
static bool nested_is_whole(const struct pb_py_layout *py, bool stale)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_raw_stack stack;
    struct world w;
    uint64_t outer, other, inner, first, second, root;

    world_init(&w, py);
    outer = make_frame(&w, make_code(&w, "outer", 1), make_root(&w), OWNER_THREAD);
    other = make_frame(&w, make_code(&w, "other", 1), make_root(&w), OWNER_THREAD);
    set_entry(&w, outer);
    set_entry(&w, other);
    root = py->f_is_entry == PB_NONE ? make_frame(&w, 0, outer, py->owner_shim) : outer;
    inner = make_frame(&w, make_code(&w, "inner", 1), root, OWNER_THREAD);
    set_entry(&w, inner);
    first = image_room(&w.img, 64);
    second = image_room(&w.img, 64);
    put(&w, first, py->cframe_current, outer);
    put(&w, second, py->cframe_previous, first);
    put(&w, second, py->cframe_current, stale ? other : inner);
    put(&w, w.tstate, py->ts_cframe, second);
    walk(&w, &a, &stack);
    pb_arena_finish(&a);
    return stack.complete;
}

static void test_a_run_that_has_just_begun_is_torn(void **state)
{
    (void)state;
    for (int minor = 11; minor <= 12; minor++) {
        assert_true(nested_is_whole(kept_layout(3, minor, 0), false));
        assert_false(nested_is_whole(kept_layout(3, minor, 0), true));
    }
}

/* A frame that has not run yet may still name the caller of an older one. */
static void check_begun(const struct pb_py_layout *py)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_raw_stack stack;
    struct world w;
    uint64_t code, frame, other;
    bool shows = py->minor == 11 || py->minor == 12;

    world_init(&w, py);
    code = make_code(&w, "fn", 1);
    frame = make_frame(&w, code, make_root(&w), OWNER_THREAD);
    set_entry(&w, frame);
    set_current(&w, frame);
    walk(&w, &a, &stack);
    assert_false(pb_py_just_begun(py, &stack));
    if (py->f_instr_is_pointer)
        put(&w, frame, py->f_lasti, code + (uint64_t)py->co_code - 2);
    walk(&w, &a, &stack);
    assert_true(pb_py_just_begun(py, &stack) == shows);
    /* What an older run has left behind it, as if it had been called. */
    set_current(&w, make_frame(&w, make_code(&w, "left", 1), frame, OWNER_THREAD));
    walk(&w, &a, &stack);
    assert_true(pb_py_just_begun(py, &stack) == shows);
    /* A caller in another evaluator may wait for its first instruction, for a compiler say. */
    if (shows && py->f_is_entry == PB_NONE)
        frame = make_frame(&w, 0, frame, py->owner_shim);
    other = make_frame(&w, make_code(&w, "other", 1), frame, OWNER_THREAD);
    set_entry(&w, other);
    set_current(&w, other);
    walk(&w, &a, &stack);
    assert_false(pb_py_just_begun(py, &stack));
    pb_arena_finish(&a);
}

static void test_a_frame_that_has_just_begun(void **state)
{
    (void)state;
    each_layout(check_begun);
}

static void check_wild(const struct pb_py_layout *py)
{
    const uint64_t wild[] = {8, 0x7fffffffffff, 0xdeadbeefdeadbeef, UINT64_MAX, 0x100001};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_raw_stack stack;
    struct pb_py_codes codes;
    struct world w;

    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        world_init(&w, py);
        set_current(&w, make_frame(&w, wild[i], wild[i], OWNER_THREAD));
        walk(&w, &a, &stack);
        assert_false(stack.complete);
        pb_py_codes_init(&codes, &w.img.mem, py);
        assert_null(pb_py_code_get(&codes, wild[i]));
        pb_py_codes_finish(&codes);
    }
    pb_arena_finish(&a);
}

static void test_wild_pointers_are_refused(void **state)
{
    (void)state;
    each_layout(check_wild);
}

/* 3.14t: a thread with bytecode of its own counts from the start of that. */
static void test_lines_of_per_thread_bytecode(void **state)
{
    struct pb_py_layout py = layout_of(offsets_314t_bytes);
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_raw_frame f = {.tlbc = 2};
    struct pb_py_code *code;
    struct pb_py_codes codes;
    struct world w;
    uint64_t obj, array, own;

    (void)state;
    world_init(&w, &py);
    obj = make_code(&w, "fn", 30);
    own = image_room(&w.img, 64);
    array = image_room(&w.img, 64);
    image_word(&w.img, array, 3);
    image_word(&w.img, array + 8 + 2 * 8, own);
    put(&w, obj, py.co_tlbc, array);
    pb_py_codes_init(&codes, &w.img.mem, &py);
    code = pb_py_code_get(&codes, obj);
    assert_non_null(code);
    f.instr = own + 4;
    assert_int_equal(pb_py_code_position(&codes, code, &f).line, 31);
    pb_py_codes_finish(&codes);
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_reads_its_stack),
        cmocka_unit_test(test_a_cycle_ends),
        cmocka_unit_test(test_a_chain_without_its_root_is_torn),
        cmocka_unit_test(test_a_run_that_has_just_begun_is_torn),
        cmocka_unit_test(test_a_frame_that_has_just_begun),
        cmocka_unit_test(test_wild_pointers_are_refused),
        cmocka_unit_test(test_lines_of_per_thread_bytecode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
