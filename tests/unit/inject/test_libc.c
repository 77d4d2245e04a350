#include "inject/target.h"

#include <poll.h>
#include <pthread.h>

#include "inject/libc.h"

static void sleep_on(void *arg)
{
    (void)arg;
    for (;;)
        pause();
}

static struct pb_libc found(pid_t pid)
{
    struct pb_err err = {0};
    struct pb_maps maps;
    struct pb_libc c;
    struct pb_mem mem;

    pb_mem_init_process(&mem, pid);
    assert_int_equal(pb_maps_read(&maps, pid, &err), 0);
    if (pb_libc_find(&c, pid, &maps, &mem, &err) < 0)
        fail_msg("%s", err.msg);
    pb_maps_finish(&maps);
    return c;
}

static uint64_t own(const char *name)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    void *f = dlsym(libc, name);

    assert_non_null(f);
    return (uint64_t)(uintptr_t)f;
}

/* A child that was forked has everything at the same addresses. */
static void functions_of_a_child(void **state)
{
    pid_t pid = target_begin(sleep_on, NULL);
    struct pb_libc c = found(pid);

    (void)state;
    assert_int_equal(c.pthread_create, own("pthread_create"));
    assert_int_equal(c.attr_init, own("pthread_attr_init"));
    assert_int_equal(c.attr_setstacksize, own("pthread_attr_setstacksize"));
    assert_int_equal(c.attr_setdetachstate, own("pthread_attr_setdetachstate"));
    assert_int_equal(c.errno_location, own("__errno_location"));
    assert_true(c.dlopen && c.dlsym);
    assert_true(own("poll") >= c.text.lo && own("poll") < c.text.hi);
    pb_libc_finish(&c);
    target_end(pid);
}

static void what_is_dangerous(void **state)
{
    static const char *const danger[] = {"malloc",  "free",   "calloc", "realloc",
                                         "dlopen",  "dlsym",  "fork",   "pthread_create",
                                         "setresuid", "fopen"};
    static const char *const harmless[] = {"poll",  "read",   "select", "nanosleep", "write",
                                           "qsort", "memcmp", "wait4",  "sched_yield"};
    pid_t pid = target_begin(sleep_on, NULL);
    struct pb_libc c = found(pid);

    (void)state;
    for (size_t i = 0; i < sizeof danger / sizeof *danger; i++)
        if (!pb_danger_has(&c.danger, own(danger[i])))
            fail_msg("%s is not seen as dangerous", danger[i]);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (pb_danger_has(&c.danger, own(harmless[i])))
            fail_msg("%s is seen as dangerous", harmless[i]);
    assert_true(pb_danger_has(&c.danger, c.loader.lo));
    assert_true(pb_danger_has(&c.danger, c.loader.hi - 1));
    assert_false(pb_danger_has(&c.danger, c.loader.hi));
    assert_false(pb_danger_has(&c.danger, 0));
    assert_false(pb_danger_has(&c.danger, UINT64_MAX));
    for (size_t i = 0; i < c.danger.n; i++) {
        assert_true(c.danger.v[i].lo < c.danger.v[i].hi);
        assert_true(i == 0 || c.danger.v[i - 1].hi < c.danger.v[i].lo);
    }
    pb_libc_finish(&c);
    target_end(pid);
}

static void an_address_space_without_libc(void **state)
{
    static const char *const cases[][2] = {
        {"00400000-00401000 r-xp 00000000 08:01 7 /bin/busybox\n", "static"},
        {"7f0000000000-7f0000001000 r-xp 00000000 08:01 7 /lib/ld-musl-x86_64.so.1\n", "musl"},
    };
    struct pb_mem mem;

    (void)state;
    pb_mem_init_process(&mem, getpid());
    for (size_t i = 0; i < 2; i++) {
        struct pb_err err = {0};
        struct pb_maps maps;
        struct pb_libc c;

        assert_int_equal(pb_maps_parse(&maps, strdup(cases[i][0]), strlen(cases[i][0]), &err), 0);
        assert_int_equal(pb_libc_find(&c, getpid(), &maps, &mem, &err), -1);
        assert_non_null(strstr(err.msg, cases[i][1]));
        pb_maps_finish(&maps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_a_child),
        cmocka_unit_test(what_is_dangerous),
        cmocka_unit_test(an_address_space_without_libc),
    };

    return RUN_TESTS(tests);
}
