/*
 * Values in images of memory: versions and builds that may not be on this
 * machine, and data that no interpreter would write.
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

static uint8_t memory[1 << 16];

static struct pb_py_layout layout_of(void (*fill)(uint8_t *))
{
    uint8_t bytes[PB_DEBUG_OFFSETS_MAX] = {0};
    struct pb_py_layout l;

    fill(bytes);
    assert_int_equal(pb_py_layout_from_offsets(&l, bytes, sizeof bytes, NULL), 0);
    return l;
}

static void expect(struct image *img, uint64_t addr, const char *expected)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_py_reader r = {&img->mem, img->py, &arena, NULL};
    struct pb_buf out = PB_BUF_INIT;

    pb_py_value(&r, addr, &pb_py_limits_default, &out);
    assert_string_equal(out.data, expected);
    pb_buf_finish(&out);
    pb_arena_finish(&arena);
}

static void check_sample(const struct pb_py_layout *py)
{
    struct image img;

    image_init(&img, py, memory, sizeof memory);
    expect(&img, image_sample(&img), "[None, 42, 'text', 0.5, (42,), {'key': 42}, {42}]");
    assert_true(img.used < sizeof memory);
}

static void test_every_layout_reads_its_objects(void **state)
{
    void (*const fills[])(uint8_t *) = {offsets_313_bytes, offsets_313t_bytes, offsets_314_bytes,
                                        offsets_314t_bytes};

    (void)state;
    for (int minor = 4; minor <= 12; minor++)
        check_sample(kept_layout(3, minor, 9));
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        struct pb_py_layout l = layout_of(fills[i]);

        check_sample(&l);
    }
}

/* A class `C` with the attributes a and b, in the scheme of the layout. */
static void check_instance(const struct pb_py_layout *py)
{
    struct image img;
    uint64_t t_int, t_str, t_dict, type, keys, key[2], value[2], obj, values;
    const uint8_t sizes[8] = {2, 2, 1, 1};
    char expected[64];

    image_init(&img, py, memory, sizeof memory);
    t_int = image_type(&img, "int", PB_TP_LONG);
    t_str = image_type(&img, "str", PB_TP_STR);
    t_dict = image_type(&img, "dict", PB_TP_DICT);
    type = image_type(&img, "C", PB_TP_HEAPTYPE);
    key[0] = image_str(&img, t_str, "a");
    key[1] = image_str(&img, t_str, "b");
    value[0] = image_int(&img, t_int, 1);
    value[1] = image_int(&img, t_int, 2);
    keys = image_keys(&img, key, NULL, 2);
    obj = image_object(&img, type, 128);
    values = image_room(&img, 32);
    image_put(&img, values, value, sizeof value);
    if (py->instance != PB_INSTANCE_DICTOFFSET) {
        image_word(&img, type + (uint64_t)py->type_flags,
                   PB_TP_READY | PB_TP_HEAPTYPE | PB_TP_MANAGED_DICT | PB_TP_INLINE_VALUES);
        image_word(&img, type + (uint64_t)py->type_cached_keys, keys);
    }
    switch (py->instance) {
    case PB_INSTANCE_DICTOFFSET:
        image_word(&img, type + (uint64_t)py->type_dictoffset, 16);
        image_word(&img, obj + 16, image_dict(&img, t_dict, keys, values, 2));
        break;
    case PB_INSTANCE_VALUES_311:
        image_word(&img, obj - 32, values);
        break;
    case PB_INSTANCE_VALUES_312:
        image_word(&img, obj - 24, values - 1);
        break;
    case PB_INSTANCE_INLINE_313:
        image_put(&img, obj + (uint64_t)py->ob_head, sizes, sizeof sizes);
        image_put(&img, obj + (uint64_t)py->ob_head + 8, value, sizeof value);
        break;
    }
    snprintf(expected, sizeof expected, "<C at 0x%llx> {a=1, b=2}", (unsigned long long)obj);
    expect(&img, obj, expected);
    if (py->instance != PB_INSTANCE_INLINE_313)
        return;
    /* A dict that was asked for shares the values, and the object points to it. */
    image_word(&img, obj + (uint64_t)(int64_t)(py->free_threaded ? -8 : -24),
               image_dict(&img, t_dict, keys, obj + (uint64_t)py->ob_head, 2));
    image_word(&img, type + (uint64_t)py->type_cached_keys, 0);
    expect(&img, obj, expected);
}

static void test_every_scheme_of_attributes(void **state)
{
    struct pb_py_layout l;

    (void)state;
    for (int minor = 4; minor <= 12; minor++)
        check_instance(kept_layout(3, minor, 9));
    l = layout_of(offsets_313_bytes);
    check_instance(&l);
    l = layout_of(offsets_314t_bytes);
    check_instance(&l);
}

static void test_tagged_references(void **state)
{
    struct pb_py_layout l = layout_of(offsets_314_bytes);
    struct image img;
    uint64_t number;

    (void)state;
    image_init(&img, &l, memory, sizeof memory);
    number = image_int(&img, image_type(&img, "int", PB_TP_LONG), 7);
    expect(&img, number, "7");
    expect(&img, number | 1, "7");
    expect(&img, 12 << 2 | 3, "12");
    expect(&img, ((uint64_t)-5 << 2) | 3, "-5");
}

/* To 3.11 a str may have its characters elsewhere, or only as wide characters. */
static void test_legacy_str(void **state)
{
    const struct pb_py_layout *py = kept_layout(3, 5, 0);
    const uint16_t two[] = {0x65e5, 0x672c};
    const uint32_t wide[] = {'o', 'l', 'd'};
    struct image img;
    uint64_t t_str, str, data;

    (void)state;
    image_init(&img, py, memory, sizeof memory);
    t_str = image_type(&img, "str", PB_TP_STR);
    data = image_room(&img, 32);
    image_put(&img, data, two, sizeof two);
    str = image_object(&img, t_str, 80);
    image_word(&img, str + 16, 2);
    image_word(&img, str + 32, 2 << 2 | 1 << 7);
    image_word(&img, str + 72, data);
    expect(&img, str, "'日本'");

    data = image_room(&img, 32);
    image_put(&img, data, wide, sizeof wide);
    str = image_object(&img, t_str, 80);
    image_word(&img, str + 40, data);
    image_word(&img, str + 64, 3);
    expect(&img, str, "'old'");
}

static void test_nonsense_is_unreadable(void **state)
{
    struct image img;
    uint64_t t_list, t_str, list, str, item;

    (void)state;
    image_init(&img, kept_layout(3, 12, 0), memory, sizeof memory);
    expect(&img, 0, "<unreadable>");
    expect(&img, 1, "<unreadable>");
    expect(&img, UINT64_MAX, "<unreadable>");
    expect(&img, IMAGE_BASE + sizeof memory, "<unreadable>");
    expect(&img, IMAGE_BASE + sizeof memory - 64, "<unreadable>");
    t_list = image_type(&img, "list", PB_TP_LIST);
    t_str = image_type(&img, "str", PB_TP_STR);
    str = image_str(&img, t_str, "abc");
    image_word(&img, str + 16, UINT64_MAX);
    expect(&img, str, "<unreadable str>");
    item = 0;
    list = image_list(&img, t_list, &item, 1);
    expect(&img, list, "[<unreadable>]");
    image_word(&img, list + 16, UINT64_MAX);
    expect(&img, list, "<unreadable>");
    image_word(&img, list + 16, 1000);
    image_word(&img, list + 24, 8);
    expect(&img, list, "<unreadable list of 1000>");
}

/* A list that holds itself many times over must end by its budget. */
static void test_a_web_of_lists_ends(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_py_limits lim = {
        .depth = 16, .items = 60, .length = 10, .total = 1 << 20, .reads = 300};
    struct pb_py_reader r = {0};
    struct pb_buf out = PB_BUF_INIT;
    uint64_t list[40], t_list;
    struct image img;

    (void)state;
    image_init(&img, kept_layout(3, 8, 0), memory, sizeof memory);
    t_list = image_type(&img, "list", PB_TP_LIST);
    memset(list, 0, sizeof list);
    for (size_t i = 0; i < 40; i++)
        list[i] = image_list(&img, t_list, list, 40);
    for (size_t i = 0; i < 40; i++) {
        uint64_t array = 0;

        memcpy(&array, memory + (list[i] - IMAGE_BASE) + 24, 8);
        image_put(&img, array, list, sizeof list);
    }
    r = (struct pb_py_reader){&img.mem, img.py, &arena, NULL};
    pb_py_value(&r, list[0], &lim, &out);
    assert_true(out.len < 100000);
    pb_buf_finish(&out);
    pb_arena_finish(&arena);
}

static void test_lookups(void **state)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_py_reader r = {0};
    uint64_t key[3], value[3], t_int, t_str, dict;
    struct image img;
    int64_t number;

    (void)state;
    image_init(&img, kept_layout(3, 5, 0), memory, sizeof memory);
    r = (struct pb_py_reader){&img.mem, img.py, &arena, NULL};
    t_int = image_type(&img, "int", PB_TP_LONG);
    t_str = image_type(&img, "str", PB_TP_STR);
    for (uint32_t i = 0; i < 3; i++) {
        const char *names[] = {"one", "other", "two"};

        key[i] = image_str(&img, t_str, names[i]);
        value[i] = image_int(&img, t_int, 10 + i);
    }
    dict = image_dict(&img, image_type(&img, "dict", PB_TP_DICT), image_keys(&img, key, value, 3),
                      0, 3);
    assert_int_equal(pb_py_dict_get(&r, dict, "two"), value[2]);
    assert_int_equal(pb_py_dict_get(&r, dict, "tw"), 0);
    assert_int_equal(pb_py_dict_get(&r, dict, "three"), 0);
    assert_int_equal(pb_py_dict_get(&r, value[0], "two"), 0);
    assert_true(pb_py_int(&r, value[1], &number));
    assert_int_equal(number, 11);
    assert_false(pb_py_int(&r, key[0], &number));
    assert_string_equal(pb_py_str(&r, key[1], 3), "oth");
    assert_null(pb_py_str(&r, value[0], 10));
    assert_string_equal(pb_py_type_name(&r, dict), "dict");
    assert_string_equal(pb_py_type_name(&r, 8), "?");
    pb_arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_reads_its_objects),
        cmocka_unit_test(test_every_scheme_of_attributes),
        cmocka_unit_test(test_tagged_references),
        cmocka_unit_test(test_legacy_str),
        cmocka_unit_test(test_nonsense_is_unreadable),
        cmocka_unit_test(test_a_web_of_lists_ends),
        cmocka_unit_test(test_lookups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
