#include "pb_test.h"

#include "inject/pep768.h"

#define SIZE 760

static void put(uint8_t *bytes, size_t at, uint64_t value)
{
    memcpy(bytes + at, &value, sizeof value);
}

/* What 3.14 says of itself, as far as it matters here. */
static void describe(uint8_t *bytes)
{
    memset(bytes, 0, SIZE);
    memcpy(bytes, "xdebugpy", 8);
    put(bytes, 8, 0x030e00f0);
    put(bytes, 48, 225808);
    put(bytes, 176, 824);
    put(bytes, 712, 24);
    put(bytes, 720, 304);
    put(bytes, 728, 8052);
    put(bytes, 736, 0);
    put(bytes, 744, 4);
    put(bytes, 752, 512);
}

static void layout_of_3_14(void **state)
{
    struct pb_pep768_layout l;
    uint8_t bytes[SIZE];

    (void)state;
    describe(bytes);
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, NULL), 0);
    assert_int_equal(l.eval_breaker, 24);
    assert_int_equal(l.support, 304);
    assert_int_equal(l.enabled, 8052);
    assert_int_equal(l.pending, 0);
    assert_int_equal(l.path, 4);
    assert_int_equal(l.path_size, 512);
}

/* 3.15 puts 80 bytes more in front of what matters here. */
static void layout_of_3_15(void **state)
{
    struct pb_pep768_layout l;
    uint8_t bytes[SIZE + 80];

    (void)state;
    memset(bytes, 0, sizeof bytes);
    describe(bytes);
    memmove(bytes + 792, bytes + 712, 48);
    memset(bytes + 712, 0xff, 80);
    put(bytes, 8, 0x030f00a8);
    put(bytes, 176, 856);
    put(bytes, 800, 336);
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, NULL), 0);
    assert_int_equal(l.eval_breaker, 24);
    assert_int_equal(l.support, 336);
    assert_int_equal(l.path_size, 512);
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes - 1, NULL), -1);
}

static void other_versions_are_refused(void **state)
{
    static const uint64_t versions[] = {0x030d00f0, 0x031000a0, 0x020700f0, 0};
    struct pb_pep768_layout l;
    uint8_t bytes[SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        struct pb_err err = {0};

        describe(bytes);
        put(bytes, 8, versions[i]);
        assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, &err), -1);
        assert_non_null(strstr(err.msg, "3.14"));
    }
    describe(bytes);
    bytes[0] = 'y';
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, NULL), -1);
    describe(bytes);
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes - 1, NULL), -1);
}

/* A position outside of its struct would make us write anywhere. */
static void nonsense_is_refused(void **state)
{
    static const size_t fields[] = {48, 176, 712, 720, 728, 736, 744, 752};
    static const uint64_t values[] = {UINT64_MAX, UINT64_MAX - 4, 1u << 30, (uint64_t)1 << 63};
    struct pb_pep768_layout l;
    uint8_t bytes[SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            describe(bytes);
            put(bytes, fields[i], values[j]);
            assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, NULL), -1);
        }
    }
    describe(bytes);
    put(bytes, 752, 8);
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, NULL), -1);
    describe(bytes);
    put(bytes, 176, 0);
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, NULL), -1);
    describe(bytes);
    put(bytes, 48, 0);
    assert_int_equal(pb_pep768_layout(&l, bytes, sizeof bytes, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_of_3_14),
        cmocka_unit_test(layout_of_3_15),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(nonsense_is_refused),
    };

    return RUN_TESTS(tests);
}
