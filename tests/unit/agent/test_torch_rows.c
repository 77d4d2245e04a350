/*
 * Rows of python.torch_trace whose time on the GPU comes late: the order stays. The agent is no
 * layer that tests link to: its file is taken in, and what it calls is here.
 */
#include "pb_test.h"

#include <math.h>
#include <stdlib.h>

#include "agent/collect/torch/rows.c"

enum { ROWS = 2 * PB_TORCH_HELD };

static struct {
    int64_t step, seq;
    double gpu_ms;
} rows[ROWS];
static unsigned nrows, cleared;
static int done; /* events up to this one */

static int events[ROWS];

static void *event(int number)
{
    events[number] = number;
    return &events[number];
}

bool pb_cuda_is_done(struct pb_cuda *c, void *e)
{
    (void)c;
    return *(int *)e <= done;
}

void pb_cuda_spans_clear(struct pb_cuda *c)
{
    (void)c;
    cleared++;
}

double pb_torch_mb(int64_t bytes)
{
    return (double)bytes;
}

double pb_torch_memory_peak(const struct pb_torch *t)
{
    (void)t;
    return 0;
}

double pb_torch_memory_cached(const struct pb_torch *t)
{
    (void)t;
    return 0;
}

void pb_torch_notes_write(struct pb_torch *t)
{
    t->nnotes = 0;
}

void pb_ring_append(struct pb_ring *r, const union pb_cell *cells)
{
    (void)r;
    assert_true(nrows < ROWS);
    rows[nrows].step = cells[AT_step].i;
    rows[nrows].seq = cells[AT_seq].i;
    rows[nrows++].gpu_ms = cells[AT_gpu_ms].d;
}

static int elapsed(float *ms, void *from, void *to)
{
    if (*(int *)from > done || *(int *)to > done)
        return 600;
    *ms = (float)(*(int *)to - *(int *)from);
    return 0;
}

static int setup(void **state)
{
    struct pb_torch *t = aligned_alloc(_Alignof(struct pb_torch), sizeof *t);

    memset(t, 0, sizeof *t);
    t->trace = (struct pb_ring *)t; /* only compared */
    t->cuda.driver.event_elapsed = elapsed;
    nrows = cleared = 0;
    done = 0;
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static struct pb_torch_row row(void)
{
    return (struct pb_torch_row){.ended_ns = pb_clock_ns(), .gpu_ms = NAN};
}

static void put(struct pb_torch *t)
{
    struct pb_torch_row r = row();

    pb_torch_put(t, &r);
}

static void hold(struct pb_torch *t, int from, int to)
{
    struct pb_torch_row r = row();

    pb_torch_hold(t, &r, event(from), event(to), &t->spans_held);
}

static void assert_order(unsigned wanted)
{
    assert_int_equal(nrows, wanted);
    for (unsigned i = 1; i < nrows; i++)
        assert_true(rows[i].step > rows[i - 1].step ||
                    (rows[i].step == rows[i - 1].step && rows[i].seq == rows[i - 1].seq + 1));
}

static void late_ones_hold_back_the_rest(void **state)
{
    struct pb_torch *t = *state;

    put(t);
    hold(t, 2, 3); /* a module inside of the next one */
    hold(t, 1, 4);
    put(t);
    t->step++;
    t->seq = 0;
    put(t);
    pb_torch_rows_poll(t, false);
    assert_order(1);
    assert_int_equal(cleared, 0);
    done = 3;
    pb_torch_rows_poll(t, false);
    assert_order(2);
    assert_true(rows[1].gpu_ms == 1);
    done = 4;
    pb_torch_rows_poll(t, false);
    assert_order(5);
    assert_true(rows[2].gpu_ms == 3 && isnan(rows[3].gpu_ms));
    assert_int_equal(t->spans_held, 0);
    assert_int_equal(cleared, 1);
    put(t);
    assert_order(6);
}

static void at_the_end_all_are_written(void **state)
{
    struct pb_torch *t = *state;

    hold(t, 1, 2);
    put(t);
    hold(t, 3, 4);
    done = 2;
    pb_torch_rows_poll(t, true);
    assert_order(3);
    assert_true(rows[0].gpu_ms == 1 && isnan(rows[2].gpu_ms));
}

static void too_many_do_not_wait(void **state)
{
    struct pb_torch *t = *state;

    for (int i = 0; i < PB_TORCH_HELD + 10; i++)
        hold(t, 1, 2);
    assert_order(PB_TORCH_HELD);
    assert_int_equal(t->spans_held, 10);
    pb_torch_rows_poll(t, true);
    assert_order(PB_TORCH_HELD + 10);
}

static void a_gpu_that_hangs_is_not_waited_for(void **state)
{
    struct pb_torch *t = *state;
    struct pb_torch_row r = row();

    r.ended_ns -= 2 * PATIENCE_NS;
    pb_torch_hold(t, &r, event(1), event(2), NULL);
    put(t);
    pb_torch_rows_poll(t, false);
    assert_order(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(late_ones_hold_back_the_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(at_the_end_all_are_written, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_do_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gpu_that_hangs_is_not_waited_for, setup, teardown),
    };

    return RUN_TESTS(tests);
}
