/* Heaps of every version in images of memory: counts, sizes and holders. */
#include "pb_test.h"

#include "../stack/python/layouts.h"
#include "../stack/python/offsets.h"
#include "heap/heap_image.h"

static uint8_t bytes[HEAP_IMAGE];

static const struct pb_heap_type *find(const struct pb_heap *h, const char *type)
{
    for (size_t i = 0; i < h->ntypes; i++)
        if (strcmp(h->types[i].type, type) == 0)
            return &h->types[i];
    fail_msg("no %s", type);
    return NULL;
}

static void check(const struct pb_py_layout *py)
{
    const struct pb_heap_opts o = {.containers = 5, .type = "Node", .memory_max = 1 << 20};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_codes codes;
    struct heap_image h;
    struct pb_err err = {0};
    struct pb_heap ret;
    uint64_t front;

    heap_image_init(&h, py, bytes);
    front = (uint64_t)h.py.gc_head;
    pb_py_codes_init(&codes, &h.img.mem, &h.py);
    h.view.codes = &codes;
    if (pb_heap_read_view(&h.view, &o, &a, &ret, &err) < 0)
        fail_msg("3.%d: %s", py->minor, err.msg);
    assert_int_equal(ret.skipped, 0);
    assert_int_equal(find(&ret, "float")->count, 2 * HEAP_NODES);
    assert_int_equal(find(&ret, "float")->bytes,
                     2 * HEAP_NODES * ((uint64_t)h.py.ob_head + 8));
    assert_int_equal(find(&ret, "Node")->count, HEAP_NODES);
    assert_int_equal(find(&ret, "Node")->bytes,
                     HEAP_NODES * ((uint64_t)h.py.ob_head + 16 + front));
    assert_int_equal(find(&ret, "list")->count, 1);
    assert_int_equal(find(&ret, "dict")->count, 2);
    /* Two short ones stand outside of the arena, too, and are found by their references. */
    assert_int_equal(find(&ret, "str")->count, 3);
    assert_int_equal(find(&ret, "str")->bytes, 3 * ((uint64_t)h.py.str_ascii_size + 1) + 1008);
    for (size_t i = 0; i < ret.ncontainers; i++) {
        const struct pb_heap_container *c = &ret.containers[i];
        bool is_list = strcmp(c->type, "list") == 0;

        assert_int_equal(c->items, is_list ? HEAP_NODES : 1);
        assert_true(i == 0 || ret.containers[i - 1].bytes >= c->bytes);
        if (is_list)
            assert_string_equal(c->holder, "app.cache");
    }
    assert_int_equal(ret.ncontainers, 3);
    assert_int_equal(ret.npaths, 1);
    assert_string_equal(ret.paths[0].path, "app.cache[…]");
    assert_int_equal(ret.paths[0].count, HEAP_NODES);
    assert_int_equal(ret.unreached, 0);
    pb_py_codes_finish(&codes);
    pb_arena_finish(&a);
}

static void every_version(void **state)
{
    (void)state;
    for (int minor = 6; minor <= 12; minor++)
        check(kept_layout(3, minor, 9));
    check(kept_layout(3, 7, 2)); /* whose collector's head has 24 bytes */
    check(kept_layout(3, 4, 10));
}

static void versions_that_describe_themselves(void **state)
{
    static void (*const fill[])(uint8_t *) = {offsets_313_bytes, offsets_314_bytes,
                                              offsets_315_bytes};

    (void)state;
    for (size_t i = 0; i < sizeof fill / sizeof *fill; i++) {
        uint8_t offsets[PB_DEBUG_OFFSETS_MAX] = {0};
        struct pb_py_layout py;

        fill[i](offsets);
        assert_int_equal(pb_py_layout_from_offsets(&py, offsets, sizeof offsets, NULL), 0);
        check(&py);
    }
}

/* A list of the collector that leads into a circle of its own, and one that leads nowhere. */
static void torn_lists_end(void **state)
{
    const struct pb_heap_opts o = {.memory_max = 1 << 20};
    struct pb_arena a = PB_ARENA_INIT;
    struct heap_image h;
    struct pb_heap ret;
    uint64_t head, first, second, interp = 0;

    (void)state;
    for (int nowhere = 0; nowhere < 2; nowhere++) {
        heap_image_init(&h, kept_layout(3, 9, 1), bytes);
        assert_true(pb_mem_u64(&h.img.mem, h.loc.interp_head, &interp));
        head = interp + 64;
        assert_true(pb_mem_u64(&h.img.mem, head, &first));
        assert_true(pb_mem_u64(&h.img.mem, first, &second));
        image_word(&h.img, second, nowhere ? 0x10 : first);
        assert_int_equal(pb_heap_read_view(&h.view, &o, &a, &ret, NULL), 0);
        assert_int_equal(find(&ret, "Node")->count, HEAP_NODES);
        assert_int_equal(ret.skipped, nowhere);
    }
    pb_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version),
        cmocka_unit_test(versions_that_describe_themselves),
        cmocka_unit_test(torn_lists_end),
    };

    return RUN_TESTS(tests);
}
