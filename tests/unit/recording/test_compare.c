#include "pb_test.h"

#include "recording/compare.h"
#include "recording/import.h"
#include "recording/made.h"

static void import(struct pb_recording *r, const char *text)
{
    struct pb_err err = {0};

    if (pb_import(text, strlen(text), r, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Own time of a function now and before, in milliseconds. */
static void times_of(const struct pb_recording *r, const char *func, double *now, double *before)
{
    uint64_t self[64] = {0}, old[64] = {0}, total[64] = {0}, total_old[64] = {0};

    assert_true(r->stacks.nnodes <= 64);
    pb_recording_sums(r, self, total);
    pb_recording_sums_before(r, old, total_old);
    *now = *before = 0;
    for (uint32_t n = 1; n < r->stacks.nnodes; n++)
        if (strcmp(r->stacks.frames[r->stacks.nodes[n].frame].func, func) == 0) {
            *now += (double)self[n] / 1e6;
            *before += (double)old[n] / 1e6;
        }
}

static void assert_times(const struct pb_recording *r, const char *func, double now, double before)
{
    double a, b;

    times_of(r, func, &a, &b);
    if (a < now - 0.01 || a > now + 0.01 || b < before - 0.01 || b > before + 0.01)
        fail_msg("%s: %g and %g instead of %g and %g", func, a, b, now, before);
}

static void before_is_scaled_to_the_same_length(void **state)
{
    struct pb_recording a, b;

    (void)state;
    import(&a, "main (t.py:1);x (t.py:2) 3000\nmain (t.py:1);y (t.py:3) 1000\n"); /* 4 ms */
    import(&b, "main (t.py:1);x (t.py:2) 2000\nmain (t.py:1);z (t.py:9) 6000\n"); /* 8 ms */
    pb_compare(&b, &a, "a");
    assert_string_equal(b.before_title, "a");
    assert_times(&b, "x", 2, 6);
    assert_times(&b, "y", 0, 2);
    assert_times(&b, "z", 6, 0);
    pb_recording_finish(&a);
    pb_recording_finish(&b);
}

/* Of the same window, of which one process has seen a quarter only. */
static void a_process_that_began_later(void **state)
{
    struct pb_prof_frame x = {"x", "t.py", 1, false}, y = {"y", "t.py", 2, false};
    struct pb_recording v[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pb_rec_sample s = {.weight_ns = i ? 2000000 : 8000000, .count = 1};

        pb_recording_init(&v[i]);
        v[i].length_ns = 8000000;
        s.node = pb_stacks_child(&v[i].stacks, 0, &x);
        s.thread = pb_recording_thread(&v[i], 7 + i, 7 + i, "MainThread");
        pb_recording_add(&v[i], &s);
        s.node = pb_stacks_child(&v[i].stacks, 0, &y);
        s.thread = pb_recording_thread(&v[i], 7 + i, 9, "worker");
        pb_recording_add(&v[i], &s);
    }
    pb_compare(&v[1], &v[0], "the other");
    assert_times(&v[1], "x", 2, 2);
    assert_times(&v[1], "y", 2, 2);
    v[1].nbefore = 0;
    pb_compare_median(&v[1], v, 1, "the others");
    assert_times(&v[1], "x", 2, 2);
    pb_recording_finish(&v[0]);
    pb_recording_finish(&v[1]);
}

/* How deep a stack is, a ring says that anybody may have written. */
static void a_stack_without_an_end(void **state)
{
    struct pb_prof_frame f = {"f", "t.py", 1, false};
    struct pb_rec_sample s = {.weight_ns = 1000000, .count = 1};
    struct pb_recording a, b;

    (void)state;
    pb_recording_init(&a);
    for (f.lineno = 1; f.lineno <= 400000; f.lineno++)
        s.node = pb_stacks_child(&a.stacks, s.node, &f);
    s.thread = pb_recording_thread(&a, 1, 1, "t");
    pb_recording_add(&a, &s);
    a.length_ns = 1000000;
    import(&b, "main (t.py:1);x (t.py:2) 1000\n");
    pb_compare(&b, &a, "a");
    assert_int_equal(b.stacks.nnodes, 400003);
    pb_recording_finish(&a);
    pb_recording_finish(&b);
}

static void the_median_of_several(void **state)
{
    struct pb_recording r, others[3];

    (void)state;
    import(&r, "main;x 10000\n");
    import(&others[0], "main;x 2000\nmain;y 8000\n");
    import(&others[1], "main;x 4000\nmain;y 6000\n");
    import(&others[2], "main;x 19000\nmain;z 1000\n"); /* 20 ms: 9.5 of 10 */
    pb_compare_median(&r, others, 3, "others");
    assert_times(&r, "x", 10, 4);
    assert_times(&r, "y", 0, 6);
    assert_times(&r, "z", 0, 0); /* one of three has it */
    for (int i = 0; i < 3; i++)
        pb_recording_finish(&others[i]);
    pb_recording_finish(&r);
}

static void processes_are_taken_apart(void **state)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_recording r, one;
    uint32_t *roots;

    (void)state;
    import(&r, "rank 0;main;x 1000\nrank 1;main;x 2000\nrank 0;main;y 4000\n");
    assert_int_equal(pb_compare_roots(&r, &a, &roots), 2);
    pb_compare_split(&r, roots[0], &one);
    assert_times(&one, "x", 1, 0);
    assert_times(&one, "y", 4, 0);
    assert_times(&one, "rank 0", 0, 0);
    assert_int_equal(one.length_ns, r.length_ns);
    pb_recording_finish(&one);
    pb_recording_finish(&r);
    pb_arena_finish(&a);
}

/* What flamegraph writes is read again: names with blanks and brackets, lines, threads. */
static void files_are_read_again(void **state)
{
    static const char *const formats[] = {"speedscope", "collapsed"};
    struct pb_buf text = PB_BUF_INIT;
    struct pb_recording r, again;

    (void)state;
    made_recording(&r);
    for (int i = 0; i < 2; i++) {
        pb_buf_clear(&text);
        pb_format_find(formats[i])->write(&r, &text);
        import(&again, text.data);
        assert_int_equal(again.stacks.nnodes, r.stacks.nnodes);
        assert_times(&again, "step", 20, 0);
        assert_times(&again, "poll", 30, 0);
        assert_int_equal(again.stacks.frames[0].lineno, 15);
        pb_recording_finish(&again);
    }
    pb_recording_finish(&r);
    pb_buf_finish(&text);
}

/* Collapsed stacks have short names of files, and of two threads twice the time. */
static void files_of_two_formats(void **state)
{
    static const char *const formats[] = {"speedscope", "collapsed"};
    struct pb_prof_frame x = {"x", "/app/t.py", 1, false};
    struct pb_rec_sample s = {.weight_ns = 4000000, .count = 1};
    struct pb_buf text[2] = {PB_BUF_INIT, PB_BUF_INIT};
    struct pb_recording r, a, b;

    (void)state;
    pb_recording_init(&r);
    r.length_ns = 4000000;
    r.rate = 100;
    for (int i = 0; i < 2; i++) {
        s.thread = pb_recording_thread(&r, 7, 7 + i, i ? "worker" : "MainThread");
        s.node = pb_stacks_child(&r.stacks, 0, &x);
        pb_recording_add(&r, &s);
    }
    for (int i = 0; i < 2; i++)
        pb_format_find(formats[i])->write(&r, &text[i]);
    for (int i = 0; i < 2; i++) {
        import(&a, text[i].data);
        import(&b, text[1 - i].data);
        pb_compare(&b, &a, "a");
        assert_times(&b, "x", 8, 8);
        assert_int_equal(b.stacks.nframes, 1);
        pb_recording_finish(&a);
        pb_recording_finish(&b);
    }
    pb_recording_finish(&r);
    pb_buf_finish(&text[0]);
    pb_buf_finish(&text[1]);
}

static void other_files_are_refused(void **state)
{
    static const char *const wrong[] = {
        "", "hello", "a;b x\n", "a 99999999999999999999\n", "{", "{}", "[]",
        "{\"shared\":{\"frames\":[]},\"profiles\":[{\"type\":\"sampled\",\"unit\":\"seconds\","
        "\"samples\":[[0]],\"weights\":[1]}]}",
        "{\"shared\":{\"frames\":[{\"name\":\"a\"}]},\"profiles\":[{\"type\":\"sampled\",\"unit\":"
        "\"seconds\",\"samples\":[[0],[0]],\"weights\":[1]}]}",
        "{\"shared\":{\"frames\":[{\"name\":\"a\"}]},\"profiles\":[{\"type\":\"sampled\",\"unit\":"
        "\"seconds\",\"samples\":[[0]],\"weights\":[-1]}]}",
    };
    struct pb_recording r;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (pb_import(wrong[i], strlen(wrong[i]), &r, &(struct pb_err){0}) == 0)
            fail_msg("taken: %s", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_is_scaled_to_the_same_length),
        cmocka_unit_test(a_process_that_began_later),
        cmocka_unit_test(the_median_of_several),
        cmocka_unit_test(a_stack_without_an_end),
        cmocka_unit_test(processes_are_taken_apart),
        cmocka_unit_test(files_are_read_again),
        cmocka_unit_test(files_of_two_formats),
        cmocka_unit_test(other_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
