#include "inject/target.h"

#include "inject/arch.h"

static void sleep_on(void *arg)
{
    (void)arg;
    for (;;)
        pause();
}

static void open_target(struct pb_injection *in, const struct pb_inject_opts *o, pid_t pid)
{
    struct pb_err err = {0};
    char path[32];

    memset(in, 0, sizeof *in);
    in->pid = pid;
    in->o = o;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    in->fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(in->fd >= 0);
    pb_mem_init_process(&in->mem, pid);
    assert_int_equal(pb_maps_read(&in->maps, pid, &err), 0);
    if (pb_libc_find(&in->libc, pid, &in->maps, &in->mem, &err) < 0)
        fail_msg("%s", err.msg);
}

static void close_target(struct pb_injection *in)
{
    pb_libc_finish(&in->libc);
    pb_maps_finish(&in->maps);
    pb_arena_finish(&in->arena);
    close(in->fd);
}

static uint64_t place(struct pb_injection *in)
{
    struct pb_err err = {0};

    if (pb_place_code(in, &err) < 0)
        fail_msg("%s", err.msg);
    return in->code;
}

/* The code of the same tool is used again, whole or half written; another's is left alone. */
static void code_goes_where_nothing_is(void **state)
{
    size_t size = (size_t)(pb_code_end - pb_code_start);
    struct pb_inject_opts o = target_library();
    pid_t pid = target_begin(sleep_on, NULL);
    struct pb_injection in;
    const struct pb_map *map;
    uint8_t bytes[4096];
    uint64_t first;

    (void)state;
    open_target(&in, &o, pid);
    first = place(&in);
    map = pb_maps_find(&in.maps, first);
    assert_non_null(map);
    assert_true(map->exec && !map->write);
    assert_true(first + size <= map->end && first + size > map->end - 4096);
    assert_true(pb_mem_get(&in.mem, first, bytes, size));
    assert_memory_equal(bytes, pb_code_start, size);
    assert_int_equal(place(&in), first);
    memset(bytes, 0, size / 2);
    assert_int_equal(pwrite(in.fd, bytes, size / 2, (off_t)first), size / 2);
    assert_int_equal(place(&in), first);
    memset(bytes, 0xcc, 64);
    assert_int_equal(pwrite(in.fd, bytes, 64, (off_t)first), 64);
    assert_int_not_equal(place(&in), first);
    assert_true(pb_mem_get(&in.mem, first, bytes, 64));
    assert_int_equal(bytes[0], 0xcc);
    close_target(&in);
    target_end(pid);
}

static void the_arena_is_in_free_space(void **state)
{
    struct pb_inject_opts o = target_library();
    pid_t pid = target_begin(sleep_on, NULL);
    struct pb_injection in;

    (void)state;
    open_target(&in, &o, pid);
    for (int i = 0; i < 20; i++) {
        const struct pb_block *b = &in.block;
        struct pb_err err = {0};

        assert_int_equal(pb_place_arena(&in, &err), 0);
        assert_true(b->arena % 4096 == 0 && b->size % 4096 == 0);
        assert_true(b->save % 64 == 0 && b->save >= PB_B_TOTAL);
        assert_true(b->save + pb_arch_save_size() + 32768 < b->size);
        for (uint64_t at = b->arena; at < b->arena + b->size; at += 4096)
            assert_null(pb_maps_find(&in.maps, at));
        usleep(1);
    }
    close_target(&in);
    target_end(pid);
}

static void paths_never_repeat(void **state)
{
    char one[280], two[280];

    (void)state;
    for (int i = 0; i < 100; i++) {
        size_t len = pb_fresh_fd_folder(one, sizeof one);

        assert_int_equal(len, strlen(one));
        pb_fresh_fd_folder(two, sizeof two);
        assert_string_not_equal(one, two);
        assert_int_equal(access(one, R_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_goes_where_nothing_is),
        cmocka_unit_test(the_arena_is_in_free_space),
        cmocka_unit_test(paths_never_repeat),
    };

    return RUN_TESTS(tests);
}
