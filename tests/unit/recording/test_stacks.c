#include "pb_test.h"

#include <stdio.h>

#include "recording/stacks.h"

static void same_stack_has_one_number(void **state)
{
    struct pb_frame frames[] = {{.func = "inner", .file = "/a.py", .lineno = 3},
                                {.func = "outer", .file = "/a.py", .lineno = 9}};
    struct pb_thread t = {.frames = frames, .nframes = 2};
    struct pb_stacks s;
    uint32_t first, line, again, function;

    (void)state;
    pb_stacks_init(&s);
    first = pb_stacks_add(&s, 0, &t, false);
    again = pb_stacks_add(&s, 0, &t, false);
    frames[0].lineno = 4;
    line = pb_stacks_add(&s, 0, &t, false);
    assert_int_equal(first, again);
    assert_int_not_equal(first, line);
    assert_int_equal(s.nodes[first].parent, s.nodes[line].parent);
    assert_string_equal(s.frames[s.nodes[s.nodes[first].parent].frame].func, "outer");
    function = pb_stacks_add(&s, 0, &t, true);
    frames[0].lineno = 3;
    assert_int_equal(pb_stacks_add(&s, 0, &t, true), function);
    assert_int_equal(s.frames[s.nodes[function].frame].lineno, 0);
    pb_stacks_finish(&s);
}

/* Whatever else is in the table. The number itself is in files: it must never change. */
static void ids_are_the_same_everywhere(void **state)
{
    struct pb_frame frames[] = {{.func = "inner", .file = "/a.py", .lineno = 3},
                                {.func = "outer", .file = "/a.py", .lineno = 9}};
    struct pb_thread t = {.frames = frames, .nframes = 2};
    struct pb_prof_frame other = {"other", "/b.py", 1, false};
    struct pb_stacks s, u;
    uint32_t x, y;

    (void)state;
    pb_stacks_init(&s);
    pb_stacks_init(&u);
    pb_stacks_child(&u, pb_stacks_child(&u, 0, &other), &other);
    x = pb_stacks_add(&s, 0, &t, false);
    y = pb_stacks_add(&u, 0, &t, false);
    assert_int_not_equal(x, y);
    assert_true(s.nodes[x].id == u.nodes[y].id);
    assert_true(s.nodes[x].id == UINT64_C(16025611306486431633));
    assert_true(s.nodes[x].id != s.nodes[s.nodes[x].parent].id);
    frames[1].lineno = 10;
    assert_true(s.nodes[pb_stacks_add(&s, 0, &t, false)].id != u.nodes[y].id);
    pb_stacks_finish(&s);
    pb_stacks_finish(&u);
}

static void parents_come_first(void **state)
{
    struct pb_stacks s;
    uint32_t node = 0;
    char name[16];

    (void)state;
    pb_stacks_init(&s);
    for (int round = 0; round < 2; round++) {
        node = 0;
        for (int i = 0; i < 5000; i++) { /* past several growths of every table */
            struct pb_prof_frame f = {name, "f.py", i, false};

            snprintf(name, sizeof name, "f%d", i);
            node = pb_stacks_child(&s, i % 7 ? node : 0, &f);
        }
    }
    assert_int_equal(s.nnodes, 5001);
    assert_int_equal(s.nframes, 5000);
    for (size_t i = 1; i < s.nnodes; i++)
        assert_true(s.nodes[i].parent < i);
    pb_stacks_finish(&s);
}

static void what_is_left_out_is_said(void **state)
{
    struct pb_frame frames[] = {{.func = "in", .file = "a"}, {.func = "out", .file = "a"}};
    struct pb_thread t = {.frames = frames, .nframes = 2, .total = 9, .cut_at = 1, .elided = 7};
    struct pb_thread none = {0};
    struct pb_frame nameless = {.native = true, .module = "/lib/x.so", .offset = 0x1234};
    struct pb_thread native = {.frames = &nameless, .nframes = 1};
    struct pb_stacks s;
    uint32_t n;

    (void)state;
    pb_stacks_init(&s);
    n = pb_stacks_add(&s, 0, &t, false);
    assert_string_equal(s.frames[s.nodes[s.nodes[n].parent].frame].func, "… frames left out …");
    n = pb_stacks_add(&s, 0, &none, false);
    assert_string_equal(s.frames[s.nodes[n].frame].func, "<no Python code>");
    n = pb_stacks_add(&s, 0, &native, false);
    assert_string_equal(s.frames[s.nodes[n].frame].func, "0x000000001234");
    assert_string_equal(s.frames[s.nodes[n].frame].file, "/lib/x.so");
    pb_stacks_finish(&s);
}

static void short_names_of_files(void **state)
{
    (void)state;
    assert_string_equal(pb_stacks_short_file("/v/lib/python3.11/site-packages/torch/nn/m.py"),
                        "torch/nn/m.py");
    assert_string_equal(pb_stacks_short_file("/usr/lib/python3.9/threading.py"), "threading.py");
    assert_string_equal(pb_stacks_short_file("/app/model.py"), "model.py");
    assert_string_equal(pb_stacks_short_file("<string>"), "<string>");
    assert_string_equal(pb_stacks_short_file("/x/"), "/x/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_stack_has_one_number),
        cmocka_unit_test(ids_are_the_same_everywhere),
        cmocka_unit_test(parents_come_first),
        cmocka_unit_test(what_is_left_out_is_said),
        cmocka_unit_test(short_names_of_files),
    };

    return RUN_TESTS(tests);
}
