#include "pb_test.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/process/mempages.h"

/* Memory of this process, with a count of the calls. */
struct counted {
    struct pb_mem own, mem;
    size_t calls, ranges;
};

static size_t count_and_read(struct pb_mem *mem, const struct pb_mem_range *v, size_t n)
{
    struct counted *c = mem->arg;

    c->calls++;
    c->ranges += n;
    return c->own.read(&c->own, v, n);
}

static void counted_init(struct counted *c)
{
    memset(c, 0, sizeof *c);
    pb_mem_init_process(&c->own, getpid());
    c->mem = (struct pb_mem){.read = count_and_read, .pid = getpid(), .arg = c};
}

static uint8_t *make_pages(size_t n)
{
    uint8_t *p = mmap(NULL, n * PB_MEM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    for (size_t i = 0; i < n * PB_MEM_PAGE; i++)
        p[i] = (uint8_t)(i * 7 + i / PB_MEM_PAGE);
    return p;
}

static void a_page_is_read_once(void **state)
{
    uint8_t *p = make_pages(3), buf[300];
    struct pb_mem_pages pages;
    struct counted c;

    (void)state;
    counted_init(&c);
    pb_mem_pages_init(&pages, &c.mem);
    for (size_t at = 0; at + sizeof buf <= 2 * PB_MEM_PAGE; at += 100) {
        assert_true(pb_mem_get(&pages.mem, (uintptr_t)p + at, buf, sizeof buf));
        assert_memory_equal(buf, p + at, sizeof buf);
    }
    assert_int_equal(c.ranges, 2);
    /* What changes meanwhile is not seen: that is the bargain. */
    p[0] ^= 255;
    assert_true(pb_mem_get(&pages.mem, (uintptr_t)p, buf, 1));
    assert_int_equal(buf[0], p[0] ^ 255);
    pb_mem_pages_finish(&pages);
    munmap(p, 3 * PB_MEM_PAGE);
}

static void many_ranges_take_few_calls(void **state)
{
    enum { N = 200 };
    uint8_t *p = make_pages(N), got[N];
    struct pb_mem_range v[N];
    struct pb_mem_pages pages;
    struct counted c;

    (void)state;
    counted_init(&c);
    pb_mem_pages_init(&pages, &c.mem);
    for (size_t i = 0; i < N; i++)
        v[i] = (struct pb_mem_range){(uintptr_t)p + i * PB_MEM_PAGE + i, &got[i], 1};
    assert_int_equal(pages.mem.read(&pages.mem, v, N), N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(got[i], p[i * PB_MEM_PAGE + i]);
    assert_in_range(c.calls, 1, N / 8);
    pb_mem_pages_finish(&pages);
    munmap(p, N * PB_MEM_PAGE);
}

static void holes_end_what_is_read(void **state)
{
    uint8_t *p = make_pages(4), buf[4 * PB_MEM_PAGE];
    struct pb_mem_range v[3] = {{(uintptr_t)p + 10, buf, 8},
                                {(uintptr_t)p + PB_MEM_PAGE - 4, buf + 8, 8},
                                {(uintptr_t)p + 20, buf + 16, 8}};
    struct pb_mem_pages pages;
    struct counted c;

    (void)state;
    assert_int_equal(munmap(p + PB_MEM_PAGE, PB_MEM_PAGE), 0);
    counted_init(&c);
    pb_mem_pages_init(&pages, &c.mem);
    assert_int_equal(pages.mem.read(&pages.mem, v, 3), 1);
    assert_memory_equal(buf, p + 10, 8);
    assert_true(pb_mem_get(&pages.mem, (uintptr_t)p + PB_MEM_PAGE - 4, buf, 4));
    assert_true(pb_mem_get(&pages.mem, (uintptr_t)p + 2 * PB_MEM_PAGE, buf, 2 * PB_MEM_PAGE));
    assert_false(pb_mem_get(&pages.mem, (uintptr_t)p + PB_MEM_PAGE, buf, 1));
    assert_false(pb_mem_get(&pages.mem, (uintptr_t)p, buf, sizeof buf));
    assert_false(pb_mem_get(&pages.mem, UINT64_MAX - 2, buf, 8));
    assert_false(pb_mem_get(&pages.mem, 0, buf, 8));
    pb_mem_pages_finish(&pages);
    munmap(p, 4 * PB_MEM_PAGE);
}

static void more_pages_than_it_keeps(void **state)
{
    enum { N = 3 * PB_MEM_PAGES_MAX };
    uint8_t *p = make_pages(N), got;
    struct pb_mem_pages pages;
    struct counted c;

    (void)state;
    counted_init(&c);
    pb_mem_pages_init(&pages, &c.mem);
    for (size_t i = 0; i < N; i++) {
        assert_true(pb_mem_get(&pages.mem, (uintptr_t)p + i * PB_MEM_PAGE + 5, &got, 1));
        assert_int_equal(got, p[i * PB_MEM_PAGE + 5]);
        assert_in_range(pages.n, 1, PB_MEM_PAGES_MAX);
    }
    /* Pages that are not there take no more than those that are. */
    munmap(p, N * PB_MEM_PAGE);
    for (size_t i = 0; i < N; i++)
        pb_mem_get(&pages.mem, 4096 + i * 8, &got, 1);
    assert_in_range(pages.n, 1, PB_MEM_PAGES_MAX);
    pb_mem_pages_finish(&pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_is_read_once),
        cmocka_unit_test(many_ranges_take_few_calls),
        cmocka_unit_test(holes_end_what_is_read),
        cmocka_unit_test(more_pages_than_it_keeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
