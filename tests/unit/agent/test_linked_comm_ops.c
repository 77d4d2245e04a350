/* Operations between ranks: their two rows, who keeps an entry, and the time they take together. */
#include "agent/agent_test.h"

#include "agent/comm/comm.h"
#include "schema/table.h"

PB_TABLE_COLUMNS(PB_PYTHON_COMM);
static const struct pb_ring_spec table = {
    PB_TABLE_SPEC(PB_PYTHON_COMM_NAME, PB_PYTHON_COMM_DOC),
    .rows = 1024,
};

static struct pb_comm *begin(struct pb_self *self)
{
    struct pb_comm *c = pb_comm_state(self);

    c->self = self;
    c->on = true;
    c->ring = pb_collect_ring(self, &table);
    assert_non_null(c->ring);
    return c;
}

static struct pb_comm_op *claim(struct pb_comm *c)
{
    struct pb_comm_op *op = pb_comm_op_claim(c);

    if (op)
        for (int i = 0; i < PB_COMM_COLUMNS; i++)
            op->row[i].i = 0;
    return op;
}

/* Two rows with one timestamp; whoever is second to end it, as torch or a wait may be, is late. */
static void test_two_rows(void **state)
{
    struct pb_self *self = agent_begin();
    struct pb_comm *c = begin(self);
    struct pb_comm_op *op = claim(c);
    uint32_t started = pb_comm_name(c, "started", 7), done = pb_comm_name(c, "done", 4);
    static int64_t times[ROWS_MAX];
    static double ms[ROWS_MAX];
    char states[4][64];

    (void)state;
    pb_comm_op_begin(c, op, started);
    pb_comm_op_end(c, op, done, op->began_ns + 2500000);
    pb_comm_op_end(c, op, started, op->began_ns + 9000000);
    pb_comm_op_end_ms(c, op, started, 9);
    assert_int_equal(read_names("python.comm", "state", states, 4), 2);
    assert_string_equal(states[0], "started");
    assert_string_equal(states[1], "done");
    assert_int_equal(read_ints("python.comm", "timestamp", times), 2);
    assert_true(times[0] == times[1]);
    assert_int_equal(read_reals("python.comm", "latency_ms", ms), 2);
    assert_true(ms[0] != ms[0] && ms[1] > 2.499 && ms[1] < 2.501);
    agent_end(self);
}

/* What was named for another ring means nothing in this one: no row. */
static void test_row_for_another_ring(void **state)
{
    struct pb_self *self = agent_begin();
    struct pb_comm *c = begin(self);
    struct pb_comm_op *op = claim(c);
    static int64_t times[ROWS_MAX];

    (void)state;
    c->ring_number++;
    pb_comm_op_begin(c, op, 1);
    assert_int_equal(read_ints("python.comm", "timestamp", times), 0);
    agent_end(self);
}

static void test_keepers(void **state)
{
    struct pb_self *self = agent_begin();
    struct pb_comm *c = begin(self);
    struct pb_comm_op *op = claim(c);

    (void)state;
    assert_true(pb_comm_op_retain(op));
    pb_comm_op_release(op);
    assert_int_not_equal(op->life, PB_COMM_FREE);
    pb_comm_op_release(op);
    assert_int_equal(op->life, PB_COMM_FREE);
    assert_false(pb_comm_op_retain(op));
    for (int i = 0; i < PB_COMM_OPS; i++)
        assert_non_null(claim(c));
    assert_null(claim(c));
    agent_end(self);
}

/* Operations that overlap count once, and each window has what was in it. */
static void test_time_together(void **state)
{
    enum { MS = 64 * 1000 }; /* a multiple of the clock's unit here */
    struct pb_self *self = agent_begin();
    struct pb_comm *c = begin(self);

    (void)state;
    pb_comm_time_end(c, 5 * MS); /* without a beginning: the agent came later */
    assert_int_equal(pb_comm_window_ns(self, 5 * MS), 0);
    pb_comm_time_begin(c, 10 * MS);
    pb_comm_time_begin(c, 12 * MS);
    pb_comm_time_end(c, 14 * MS);
    assert_int_equal(pb_comm_elapsed_ns(self, 15 * MS), 5 * MS);
    assert_int_equal(pb_comm_window_ns(self, 15 * MS), 5 * MS);
    pb_comm_time_end(c, 18 * MS);
    assert_int_equal(pb_comm_window_ns(self, 20 * MS), 3 * MS);
    assert_int_equal(pb_comm_window_ns(self, 30 * MS), 0);
    agent_end(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_rows),
        cmocka_unit_test(test_row_for_another_ring),
        cmocka_unit_test(test_keepers),
        cmocka_unit_test(test_time_together),
    };

    return RUN_TESTS(tests);
}
