#include "pb_test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/mem.h"

static void reads_itself(void **state)
{
    struct pb_mem mem;
    uint64_t value = 0x1122334455667788, got = 0;
    uint32_t half = 0;

    (void)state;
    pb_mem_init_process(&mem, getpid());
    assert_true(pb_mem_u64(&mem, (uintptr_t)&value, &got));
    assert_true(got == value);
    assert_true(pb_mem_u32(&mem, (uintptr_t)&value, &half));
    assert_false(pb_mem_u64(&mem, 0, &got));
    assert_false(pb_mem_u64(&mem, UINT64_MAX - 3, &got));
}

static void counts_whole_ranges(void **state)
{
    enum { N = 3000 };
    static uint32_t source[N], target[N];
    static struct pb_mem_range v[N];
    struct pb_mem mem;

    (void)state;
    pb_mem_init_process(&mem, getpid());
    for (uint32_t i = 0; i < N; i++) {
        source[i] = i;
        v[i] = (struct pb_mem_range){(uintptr_t)&source[i], &target[i], sizeof target[i]};
    }
    assert_int_equal(mem.read(&mem, v, N), N);
    assert_memory_equal(source, target, sizeof source);
    v[2500].addr = 8;
    assert_int_equal(mem.read(&mem, v, N), 2500);
    v[10].addr = 8;
    assert_int_equal(mem.read(&mem, v, N), 10);
    assert_int_equal(mem.read(&mem, v, 0), 0);
}

static void strings_end_at_a_hole(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct pb_mem mem;
    char buf[1000];

    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(munmap(p + page, page), 0);
    pb_mem_init_process(&mem, getpid());
    memset(p, 'a', page);
    memcpy(p + 100, "hello", 6);
    assert_true(pb_mem_string(&mem, (uintptr_t)p + 100, buf, sizeof buf));
    assert_string_equal(buf, "hello");
    assert_true(pb_mem_string(&mem, (uintptr_t)p + 100, buf, 4));
    assert_string_equal(buf, "hel");
    assert_true(pb_mem_string(&mem, (uintptr_t)p + page - 300, buf, sizeof buf));
    assert_int_equal(strlen(buf), 300);
    assert_false(pb_mem_string(&mem, (uintptr_t)p + page, buf, sizeof buf));
    munmap(p, page);
}

static void reads_up_to_a_hole(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 200 * page;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *buf = malloc(all);
    struct pb_mem mem;

    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_non_null(buf);
    pb_mem_init_process(&mem, getpid());
    memset(p, 'a', all);
    assert_int_equal(pb_mem_get_start(&mem, (uintptr_t)p + 5, buf, all - 5), all - 5);
    assert_int_equal(mprotect(p + 150 * page, page, PROT_NONE), 0);
    assert_int_equal(pb_mem_get_start(&mem, (uintptr_t)p + 5, buf, all - 5), 150 * page - 5);
    assert_int_equal(pb_mem_get_start(&mem, (uintptr_t)p + 150 * page, buf, page), 0);
    assert_int_equal(buf[150 * page - 6], 'a');
    free(buf);
    munmap(p, all);
}

static void a_process_that_is_gone(void **state)
{
    struct pb_mem mem;
    uint64_t v;
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    pb_mem_init_process(&mem, pid);
    assert_false(pb_mem_u64(&mem, (uintptr_t)&v, &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_itself),
        cmocka_unit_test(counts_whole_ranges),
        cmocka_unit_test(strings_end_at_a_hole),
        cmocka_unit_test(reads_up_to_a_hole),
        cmocka_unit_test(a_process_that_is_gone),
    };

    return RUN_TESTS(tests);
}
