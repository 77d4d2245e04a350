/* Rows of python.torch_trace whose time on the GPU comes late: the order stays. */
#include "agent/agent_test.h"

#include <math.h>

/* As in trace.c. */
#define PATIENCE_NS 30000000000u
#define TABLE "python.torch_trace"

static int64_t steps[ROWS_MAX], seqs[ROWS_MAX];
static double gpu_ms[ROWS_MAX];
static int done; /* events up to this one */
static int events[2 * PB_TORCH_WAITING];

static void *event(int number)
{
    events[number] = number;
    return &events[number];
}

static int elapsed(float *ms, void *from, void *to)
{
    if (*(int *)from > done || *(int *)to > done)
        return 600;
    *ms = (float)(*(int *)to - *(int *)from);
    return 0;
}

static int query(void *e)
{
    return *(int *)e <= done ? 0 : 600;
}

static int capture_mode(int *mode)
{
    (void)mode;
    return 0;
}

static int setup(void **state)
{
    struct pb_torch *t = torch_begin(agent_begin());

    t->cuda.driver.event_elapsed = elapsed;
    t->cuda.driver.event_query = query;
    t->cuda.driver.capture_mode = capture_mode;
    done = 0;
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct pb_torch *t = *state;

    agent_end(t->self);
    return 0;
}

static struct pb_torch_row row(void)
{
    return (struct pb_torch_row){.ended_ns = pb_clock_ns(), .gpu_ms = pb_null_real()};
}

static void append(struct pb_torch *t)
{
    struct pb_torch_row r = row();

    pb_torch_trace_append(t, &r);
}

static void append_timed(struct pb_torch *t, int from, int to)
{
    struct pb_torch_row r = row();

    pb_torch_trace_append_timed(t, &r, event(from), event(to), &t->trace.spans);
}

static void assert_order(size_t wanted)
{
    size_t n = read_ints(TABLE, "step", steps);

    assert_int_equal(n, wanted);
    assert_int_equal(read_ints(TABLE, "seq", seqs), wanted);
    read_reals(TABLE, "gpu_ms", gpu_ms);
    for (size_t i = 1; i < n; i++)
        assert_true(steps[i] > steps[i - 1] ||
                    (steps[i] == steps[i - 1] && seqs[i] == seqs[i - 1] + 1));
}

static void late_ones_hold_back_the_rest(void **state)
{
    struct pb_torch *t = *state;

    append(t);
    append_timed(t, 2, 3); /* a module inside of the next one */
    append_timed(t, 1, 4);
    append(t);
    pb_torch_steps_set(t, 1);
    append(t);
    t->cuda.nspans = 1;
    pb_torch_trace_poll(t, false);
    assert_order(1);
    assert_int_equal(t->cuda.nspans, 1);
    done = 3;
    pb_torch_trace_poll(t, false);
    assert_order(2);
    assert_true(gpu_ms[1] == 1);
    done = 4;
    pb_torch_trace_poll(t, false);
    assert_order(5);
    assert_true(gpu_ms[2] == 3 && isnan(gpu_ms[3]));
    assert_int_equal(t->trace.spans, 0);
    assert_int_equal(t->cuda.nspans, 0); /* they may be used again */
    append(t);
    assert_order(6);
}

static void at_the_end_all_are_written(void **state)
{
    struct pb_torch *t = *state;

    append_timed(t, 1, 2);
    append(t);
    append_timed(t, 3, 4);
    done = 2;
    pb_torch_trace_poll(t, true);
    assert_order(3);
    assert_true(gpu_ms[0] == 1 && isnan(gpu_ms[2]));
}

static void too_many_do_not_wait(void **state)
{
    struct pb_torch *t = *state;

    for (int i = 0; i < PB_TORCH_WAITING + 10; i++)
        append_timed(t, 1, 2);
    assert_order(PB_TORCH_WAITING);
    assert_int_equal(t->trace.spans, 10);
    pb_torch_trace_poll(t, true);
    assert_order(PB_TORCH_WAITING + 10);
}

static void a_gpu_that_hangs_is_not_waited_for(void **state)
{
    struct pb_torch *t = *state;
    struct pb_torch_row r = row();

    r.ended_ns -= 2 * (uint64_t)PATIENCE_NS;
    pb_torch_trace_append_timed(t, &r, event(1), event(2), NULL);
    append(t);
    pb_torch_trace_poll(t, false);
    assert_order(2);
}

/* A pass as a whole: its own time is that without modules inside, where that is known. */
static void stages(void **state)
{
    static double self_ms[ROWS_MAX];
    struct pb_torch *t = *state;
    struct pb_torch_stage s = {.began_ns = 1000000, .ended_ns = 5000000, .inside_ns = 3000000,
                               .bytes_before = PB_TORCH_UNKNOWN, .span = -1};

    pb_torch_trace_stage(t, &s);
    s.inside_ns = UINT64_MAX;
    pb_torch_trace_stage(t, &s);
    s.inside_ns = 9000000;
    pb_torch_trace_stage(t, &s);
    assert_int_equal(read_reals(TABLE, "self_ms", self_ms), 3);
    assert_true(self_ms[0] == 1 && isnan(self_ms[1]) && self_ms[2] == 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(late_ones_hold_back_the_rest), T(at_the_end_all_are_written), T(too_many_do_not_wait),
        T(a_gpu_that_hangs_is_not_waited_for), T(stages),
    };
#undef T

    return RUN_TESTS(tests);
}
