/* Copies of a target's memory: gaps, borders of pieces, the limit. */
#include "pb_test.h"

#include "heap/copy.h"

#define BASE UINT64_C(0x7f0000000000)
#define SIZE (PB_COPY_CHUNK * 40)

/* Memory in which each word holds its own address; two pages in it cannot be read. */
struct fake {
    struct pb_mem mem;
    struct pb_map map[2];
    struct pb_maps maps;
    size_t reads;
};

static bool is_hole(uint64_t addr)
{
    return addr / 4096 == (BASE + 5 * PB_COPY_CHUNK) / 4096 + 3;
}

static size_t fake_read(struct pb_mem *mem, const struct pb_mem_range *v, size_t n)
{
    struct fake *f = mem->arg;

    f->reads++;
    for (size_t i = 0; i < n; i++) {
        for (uint64_t at = v[i].addr & ~UINT64_C(4095); at < v[i].addr + v[i].len; at += 4096)
            if (is_hole(at) || at < BASE || at >= BASE + SIZE)
                return i;
        for (uint64_t k = 0; k < v[i].len; k++) {
            uint64_t addr = v[i].addr + k, word = addr & ~UINT64_C(7);

            ((uint8_t *)v[i].buf)[k] = (uint8_t)(word >> addr % 8 * 8);
        }
    }
    return n;
}

static void fake_init(struct fake *f)
{
    *f = (struct fake){.mem = {.read = fake_read, .arg = f}};
    /* The last pages of a piece do not belong to any mapping. */
    f->map[0] = (struct pb_map){.start = BASE, .end = BASE + 3 * PB_COPY_CHUNK - 8192,
                                .read = true, .write = true, .path = ""};
    f->map[1] = (struct pb_map){.start = BASE + 3 * PB_COPY_CHUNK, .end = BASE + SIZE,
                                .read = true, .write = true, .path = ""};
    f->maps = (struct pb_maps){.v = f->map, .n = 2};
}

static void words_are_what_they_are(void **state)
{
    struct fake f;
    struct pb_copy c;
    uint64_t v;

    (void)state;
    fake_init(&f);
    pb_copy_init(&c, &f.mem, &f.maps, UINT64_MAX);
    for (uint64_t at = BASE + 8; at < BASE + SIZE; at += 4088) {
        bool inside = !is_hole(at) && !is_hole(at + 7) &&
                      (at + 8 <= f.map[0].end || at >= f.map[1].start);

        assert_int_equal(pb_copy_u64(&c, at, &v), inside);
        if (inside)
            assert_int_equal(v, at);
    }
    assert_false(pb_copy_u64(&c, BASE - 8, &v));
    assert_false(pb_copy_u64(&c, BASE + SIZE, &v));
    assert_false(pb_copy_u64(&c, 8, &v));
    assert_false(pb_copy_u64(&c, UINT64_MAX - 7, &v));
    pb_copy_finish(&c);
}

static void ranges_go_over_borders(void **state)
{
    struct fake f;
    struct pb_copy c;
    uint64_t words[4096], at = BASE + 20 * PB_COPY_CHUNK - 16384;

    (void)state;
    fake_init(&f);
    pb_copy_init(&c, &f.mem, &f.maps, UINT64_MAX);
    assert_true(pb_copy_read(&c, at, words, sizeof words));
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(words[i], at + i * 8);
    assert_null(pb_copy_at(&c, at, sizeof words));
    assert_non_null(pb_copy_at(&c, at, 16384));
    assert_false(pb_copy_read(&c, BASE + SIZE - 8, words, 16));
    pb_copy_finish(&c);
}

static void a_range_is_loaded_with_few_reads(void **state)
{
    struct fake f;
    struct pb_copy c;
    uint64_t v;
    size_t reads;

    (void)state;
    fake_init(&f);
    pb_copy_init(&c, &f.mem, &f.maps, UINT64_MAX);
    pb_copy_load(&c, BASE, SIZE);
    reads = f.reads;
    assert_true(reads < 12);
    for (uint64_t at = BASE; at < BASE + SIZE; at += 4096)
        pb_copy_u64(&c, at, &v);
    assert_int_equal(f.reads, reads);
    assert_true(c.total <= SIZE - 3 * 4096 && c.total > SIZE - 8 * 4096);
    pb_copy_finish(&c);
}

static void above_the_limit_it_begins_anew(void **state)
{
    struct fake f;
    struct pb_copy c;
    uint64_t v;

    (void)state;
    fake_init(&f);
    pb_copy_init(&c, &f.mem, &f.maps, PB_COPY_CHUNK);
    assert_true(pb_copy_u64(&c, BASE, &v));
    pb_copy_trim(&c);
    assert_int_equal(c.nslabs, 0);
    assert_true(pb_copy_u64(&c, BASE, &v));
    assert_int_equal(v, BASE);
    assert_int_equal(f.reads, 2);
    pb_copy_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_what_they_are),
        cmocka_unit_test(ranges_go_over_borders),
        cmocka_unit_test(a_range_is_loaded_with_few_reads),
        cmocka_unit_test(above_the_limit_it_begins_anew),
    };

    return RUN_TESTS(tests);
}
