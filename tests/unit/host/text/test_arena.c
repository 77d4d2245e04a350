#include "pb_test.h"

#include "host/text/arena.h"

static bool is_zero(const void *p, size_t n)
{
    const unsigned char *c = p;

    for (size_t i = 0; i < n; i++) {
        if (c[i])
            return false;
    }
    return true;
}

static void pieces_are_zeroed_and_aligned(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    for (size_t size = 0; size < 3000; size += 7) {
        unsigned char *p = pb_arena_alloc(&a, size);

        assert_int_equal((uintptr_t)p % 16, 0);
        assert_true(is_zero(p, size));
        memset(p, 0xff, size);
    }
    pb_arena_finish(&a);
}

static void big_pieces_leave_the_block_open(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    char *before = pb_arena_alloc(&a, 16);
    char *big = pb_arena_alloc(&a, 1 << 20);
    char *after = pb_arena_alloc(&a, 16);

    (void)state;
    memset(big, 1, 1 << 20);
    assert_ptr_equal(after, before + 16);
    pb_arena_finish(&a);
}

static void growing_keeps_the_bytes(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    unsigned char *p = pb_arena_grow(&a, NULL, 0, 1);
    size_t n = 1;

    (void)state;
    p[0] = 1;
    for (; n < 200000; n = n * 2 + 1) {
        p = pb_arena_grow(&a, p, n, n * 2 + 1);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], (unsigned char)(i + 1));
        assert_true(is_zero(p + n, n + 1));
        for (size_t i = n; i < n * 2 + 1; i++)
            p[i] = (unsigned char)(i + 1);
    }
    pb_arena_finish(&a);
}

static void the_newest_piece_grows_in_place(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    char *first = pb_arena_alloc(&a, 10);
    char *p = pb_arena_alloc(&a, 10);

    (void)state;
    assert_ptr_equal(pb_arena_grow(&a, p, 10, 1000), p);
    assert_ptr_not_equal(pb_arena_grow(&a, first, 10, 1000), first);
    pb_arena_finish(&a);
}

static void strings(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;

    (void)state;
    assert_string_equal(pb_arena_strdup(&a, "abc"), "abc");
    assert_string_equal(pb_arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(pb_arena_strndup(&a, "ab", 30), "ab");
    assert_string_equal(pb_arena_printf(&a, "%s-%d", "x", 7), "x-7");
    pb_arena_finish(&a);
    pb_arena_finish(&a);
    pb_arena_finish(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_and_aligned),
        cmocka_unit_test(big_pieces_leave_the_block_open),
        cmocka_unit_test(growing_keeps_the_bytes),
        cmocka_unit_test(the_newest_piece_grows_in_place),
        cmocka_unit_test(strings),
    };

    return RUN_TESTS(tests);
}
