/* Torch's counts of operations: which group an event is about, and the operation's number there. */
#include "agent/agent_test.h"

#include <sys/mman.h>

#include "agent/comm/comm.h"

static int64_t counts[2]; /* what torch would have counted */

static int setup(void **state)
{
    struct pb_self *self = agent_begin();
    struct pb_comm *c = pb_comm_state(self);

    c->self = self;
    c->pid = getpid();
    for (int i = 0; i < 2; i++) {
        counts[i] = 0;
        c->groups.watches[i][0].at = (uintptr_t)&counts[i];
    }
    *state = c;
    return 0;
}

static int teardown(void **state)
{
    struct pb_comm *c = *state;

    agent_end(c->self);
    return 0;
}

/* Number of the operation that is claimed, 100 more in the second group; -1: none. */
static int64_t claim(struct pb_comm *c)
{
    struct pb_comm_watch *w = NULL;
    int64_t number = pb_comm_watch_claim(c, &w);

    return number < 0 ? -1 : number + (w == &c->groups.watches[1][0] ? 100 : 0);
}

static void each_operation_is_claimed_once(void **state)
{
    struct pb_comm *c = *state;

    assert_int_equal(claim(c), -1);
    counts[0] = 2;
    counts[1] = 1;
    assert_int_equal(claim(c), 1);
    assert_int_equal(claim(c), 2);
    assert_int_equal(claim(c), 101);
    assert_int_equal(claim(c), -1);
    assert_int_equal(pb_comm_watch_total(c), 3);
}

static void those_with_a_row_are_passed_over(void **state)
{
    struct pb_comm *c = *state;
    struct pb_comm_watch *w = &c->groups.watches[0][0];

    pb_comm_watch_mark(w, 2, 3);
    counts[0] = 4;
    assert_int_equal(claim(c), 1);
    assert_int_equal(claim(c), 4);
    assert_int_equal(claim(c), -1);
    /* Too many at once are not what torch would coalesce: nothing is believed of them. */
    pb_comm_watch_mark(w, 5, 500);
    counts[0] = 5;
    assert_int_equal(claim(c), 5);
    /* One far ahead: what lies between was never told of. */
    pb_comm_watch_mark(w, 90, 90);
    counts[0] = 91;
    assert_int_equal(claim(c), 91);
}

static void messages_that_torch_counts_as_well_have_no_number(void **state)
{
    struct pb_comm *c = *state;

    c->groups.watches[0][0].skew = 10;
    c->groups.watches[0][0].last = 12;
    counts[0] = 13;
    assert_int_equal(claim(c), 3);
}

static void after_a_reset_only_what_is_new_counts(void **state)
{
    struct pb_comm *c = *state;

    counts[0] = 7;
    pb_comm_watch_reset(c);
    assert_int_equal(claim(c), -1);
    counts[0] = 8;
    assert_int_equal(claim(c), 8);
}

/* The object of a group that is gone may be no memory any more. */
static void a_group_that_is_gone_is_no_crash(void **state)
{
    struct pb_comm *c = *state;
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(page != MAP_FAILED);
    c->groups.watches[0][0].at = (uintptr_t)page;
    counts[1] = 1;
    assert_int_equal(pb_comm_watch_count(c, &c->groups.watches[0][0]), -1);
    assert_int_equal(pb_comm_watch_total(c), 1);
    assert_int_equal(claim(c), 101);
    pb_comm_watch_reset(c);
    munmap(page, 4096);
}

/* Whoever holds the watch is not waited for: the program's thread is the one that asks. */
static void a_watch_in_use_is_not_waited_for(void **state)
{
    struct pb_comm *c = *state;
    struct pb_comm_watch *w = &c->groups.watches[0][0];

    counts[0] = 1;
    atomic_flag_test_and_set(&w->lock);
    pb_comm_watch_mark(w, 1, 1);
    assert_int_equal(claim(c), -1);
    atomic_flag_clear(&w->lock);
    assert_int_equal(claim(c), 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(each_operation_is_claimed_once),
        T(those_with_a_row_are_passed_over),
        T(messages_that_torch_counts_as_well_have_no_number),
        T(after_a_reset_only_what_is_new_counts),
        T(a_group_that_is_gone_is_no_crash),
        T(a_watch_in_use_is_not_waited_for),
    };
#undef T

    return RUN_TESTS(tests);
}
