/* How many cores a node may work on, and which are left to it. */
#include "pb_test.h"

#include <pthread.h>

#include "node/watchdog/cores.h"

static void half_of_what_there_is(void **state)
{
    (void)state;
    assert_int_equal(pb_cores_half_of(1, 0), 1);
    assert_int_equal(pb_cores_half_of(2, 0), 2);
    assert_int_equal(pb_cores_half_of(3, 0), 2);
    assert_int_equal(pb_cores_half_of(8, 0), 4);
    assert_int_equal(pb_cores_half_of(127, 0), 63);
    /* A container that is given less time than there are cores. */
    assert_int_equal(pb_cores_half_of(128, 8), 4);
    assert_int_equal(pb_cores_half_of(128, 0.5), 1);
    assert_int_equal(pb_cores_half_of(4, 64), 2);
}

static void the_first_ones_are_given_up(void **state)
{
    cpu_set_t set;

    (void)state;
    CPU_ZERO(&set);
    for (int i = 0; i < 16; i += 2)
        CPU_SET(i, &set);
    pb_cores_keep(&set, 3);
    assert_int_equal(CPU_COUNT(&set), 3);
    assert_true(CPU_ISSET(10, &set) && CPU_ISSET(12, &set) && CPU_ISSET(14, &set));
    pb_cores_keep(&set, 5);
    assert_int_equal(CPU_COUNT(&set), 3);
}

static void *count(void *arg)
{
    cpu_set_t mine;

    pb_cores_find(false, &mine);
    *(int *)arg = CPU_COUNT(&mine);
    return NULL;
}

/* In a thread of its own: it holds for that, and for those that it starts. */
static void *bind_and_start(void *arg)
{
    cpu_set_t all;
    pthread_t thread;

    pb_cores_find(false, &all);
    pb_cores_bind(&all);
    if (pthread_create(&thread, NULL, count, arg) == 0)
        pthread_join(thread, NULL);
    return NULL;
}

static void threads_inherit_the_bound(void **state)
{
    pthread_t thread;
    cpu_set_t all;
    int inner = 0;

    (void)state;
    pb_cores_find(false, &all);
    assert_int_equal(pthread_create(&thread, NULL, bind_and_start, &inner), 0);
    pthread_join(thread, NULL);
    assert_int_equal(inner, pb_cores_half(&all) < CPU_COUNT(&all) ? pb_cores_half(&all)
                                                                  : CPU_COUNT(&all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_what_there_is),
        cmocka_unit_test(the_first_ones_are_given_up),
        cmocka_unit_test(threads_inherit_the_bound),
    };

    return RUN_TESTS(tests);
}
