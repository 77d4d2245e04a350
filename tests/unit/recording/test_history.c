#include "pb_test.h"

#include "recording/history.h"

static const struct pb_history_window window = {1700000000000, 1700000010000};

/* As the node answers: a line of columns, then rows, for each statement. */
static const char *const answer[] = {
    "{\"columns\":[]}",
    "[\"here\",42,null]",
    "{\"columns\":[]}",
    "[5,\"main\",\"/app/train.py\",15,\"python\"]",
    "[9,\"poll\",\"/lib/libc.so.6\",null,\"native\"]",
    "{\"columns\":[]}",
    "[-7,[5]]",
    "[77,[5,9]]",
    "{\"columns\":[]}",
    "[\"here\",42,42,\"MainThread\",0,77,\"waiting\",false,false,true,false,600.0,6]",
    "[\"here\",42,42,\"MainThread\",0,-7,\"running\",true,true,false,false,400,4]",
    "[\"here\",42,42,\"MainThread\",3,-7,\"running\",true,true,false,false,1000.0,10]",
    "[\"here\",42,43,\"pool\",0,12345,\"idle\",false,false,false,false,10000.0,3]",
};

static void load(struct pb_recording *r, bool by_process)
{
    struct pb_history *h;
    struct pb_err err = {0};

    pb_recording_init(r);
    h = pb_history_begin(r, &window, false, by_process);
    for (size_t i = 0; i < sizeof answer / sizeof *answer; i++)
        if (pb_history_line(h, answer[i], strlen(answer[i]), &err) < 0)
            fail_msg("%s: %s", answer[i], err.msg);
    assert_int_equal(pb_history_processes(h), 1);
    pb_history_end(h);
}

static void rows_become_a_recording(void **state)
{
    struct pb_recording r;
    const struct pb_rec_sample *e;

    (void)state;
    load(&r, false);
    assert_int_equal(r.pid, 42);
    assert_int_equal(r.length_ns, 10000000000);
    assert_int_equal(r.started_ns, 1700000000000000000);
    assert_int_equal(r.samples, 23);
    assert_int_equal(r.nthreads, 2);
    assert_true(r.threads[0].is_main && r.threads[0].ran && !r.threads[1].ran);
    assert_int_equal(r.nentries, 3); /* what goes on is one */
    e = &r.entries[0];
    assert_string_equal(r.stacks.frames[r.stacks.nodes[e->node].frame].func, "poll");
    assert_true(e->waits_gil && !e->on_cpu && e->state == PB_WAITING);
    assert_int_equal(e->weight_ns, 600000000);
    e = &r.entries[1];
    assert_int_equal(e->at_ns, 600000000); /* behind it, in the same slot */
    assert_int_equal(e->weight_ns, 1400000000);
    assert_int_equal(e->count, 14);
    assert_int_equal(r.stacks.nodes[e->node].parent, 0);
    e = &r.entries[2]; /* its frames are not there: the time is kept */
    assert_string_equal(r.stacks.frames[r.stacks.nodes[e->node].frame].func,
                        "<frames were not kept>");
    pb_recording_finish(&r);
}

static void a_process_is_a_frame_if_asked_for(void **state)
{
    struct pb_recording r;
    uint32_t node;

    (void)state;
    load(&r, true);
    for (node = r.entries[0].node; r.stacks.nodes[node].parent; node = r.stacks.nodes[node].parent)
        ;
    assert_string_equal(r.stacks.frames[r.stacks.nodes[node].frame].func, "process 42");
    pb_recording_finish(&r);
}

static void what_is_no_answer_is_refused(void **state)
{
    static const char *const wrong[] = {"[1]", "[\"here\",42]", "no json", "[\"here\",42,null,1]"};
    struct pb_recording r;
    struct pb_history *h;

    (void)state;
    pb_recording_init(&r);
    h = pb_history_begin(&r, &window, false, false);
    assert_int_equal(pb_history_line(h, "[\"here\",42,null]", 16, &(struct pb_err){0}), -1);
    assert_int_equal(pb_history_line(h, "{}", 2, &(struct pb_err){0}), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(pb_history_line(h, wrong[i], strlen(wrong[i]), &(struct pb_err){0}), -1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pb_history_line(h, "{}", 2, &(struct pb_err){0}), 0);
    assert_int_equal(pb_history_line(h, "{}", 2, &(struct pb_err){0}), -1);
    pb_history_end(h);
    pb_recording_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_a_recording),
        cmocka_unit_test(a_process_is_a_frame_if_asked_for),
        cmocka_unit_test(what_is_no_answer_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
