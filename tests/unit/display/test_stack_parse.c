/* What one node writes about stacks another reads as it was; and what no node would write. */
#include "pb_test.h"

#include <stdio.h>
#include <string.h>

#include "display/stack.h"

static struct pb_local locals[] = {{"x", "1", true}, {"key", "'a\\nb'", false}};
static struct pb_frame frames[] = {
    {.depth = 0, .func = "inner", .file = "/a/b.py", .lineno = 7, .end_lineno = 7, .col_offset = 6,
     .end_col_offset = 9, .source = "y = f(x)", .indentation = 4, .locals = locals, .nlocals = 2},
    {.depth = 1, .native = true, .func = "PyEval", .module = "/lib/libpython.so", .offset = 16,
     .col_offset = -1, .end_col_offset = -1},
    {.depth = 9, .native = true, .func = "main", .file = "main.c", .lineno = 3,
     .module = "/bin/python", .offset = 32, .col_offset = -1, .end_col_offset = -1},
};
static struct pb_thread threads[] = {
    {.tid = 12, .ns_tid = 2, .name = "Main", .python = true, .is_main = true, .holds_gil = true,
     .state = PB_WAITING, .wait = "futex", .note = "a note", .frames = frames, .nframes = 3,
     .total = 10, .cut_at = 2, .elided = 7},
    {.tid = 13, .ns_tid = 13, .torn = true, .frames = frames, .nframes = 0},
};
static struct pb_snapshot snapshot = {.pid = 12, .ns_pid = 2, .python = "3.11.7", .how = "symbol",
                                      .module = "m", .threads = threads, .nthreads = 2};
static const struct pb_snapshot_opts opts = {.all = true, .locals = true, .source = true};

static void same_text(const struct pb_stack_process *v, size_t n, const struct pb_stack_process *w)
{
    struct pb_print a = {.fd = -1, .width = 100}, b = {.fd = -1, .width = 100};

    if (v[0].family) {
        pb_stack_tree_text(&a, v, n, true);
        pb_stack_tree_text(&b, w, n, true);
    }
    for (size_t i = 0; i < n; i++)
        if (v[i].snapshot) {
            pb_stack_text(&a, v[i].snapshot, &opts, false);
            pb_stack_text(&b, w[i].snapshot, &opts, false);
        }
    assert_string_equal(a.buf.data, b.buf.data);
    pb_buf_finish(&a.buf);
    pb_buf_finish(&b.buf);
}

static void round_trip(const struct pb_stack_process *v, size_t n)
{
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_buf text = PB_BUF_INIT;
    struct pb_stack_process *read;
    struct pb_err err = {0};
    size_t nread = 0;

    for (size_t i = 0; i < n; i++)
        pb_stack_json(&text, &v[i], &opts);
    assert_int_equal(pb_stack_parse(text.data, text.len, &a, &read, &nread, &err), 0);
    assert_int_equal(nread, n);
    same_text(v, n, read);
    pb_buf_finish(&text);
    pb_arena_finish(&a);
}

static void one_process(void **state)
{
    struct pb_stack_process p = {.snapshot = &snapshot};

    (void)state;
    round_trip(&p, 1);
}

static void a_tree(void **state)
{
    static const struct pb_tree_process tree[] = {
        {.pid = 1, .is_last = true, .command = "sh run.sh", .rank = -1, .world_size = -1},
        {.pid = 12, .parent = 1, .depth = 1, .is_python = true, .command = "train.py", .rank = 0,
         .world_size = 2},
        {.pid = 20, .parent = 12, .depth = 2, .is_last = true, .is_python = true,
         .command = "worker", .rank = -1, .world_size = -1},
        {.pid = 13, .parent = 1, .depth = 1, .is_last = true, .is_python = true,
         .command = "train.py", .rank = 1, .world_size = 2},
    };
    struct pb_stack_process v[4] = {{0}};
    struct pb_snapshot other = snapshot;

    (void)state;
    for (int i = 0; i < 4; i++)
        v[i].family = &tree[i];
    other.pid = 13;
    v[1].snapshot = &snapshot;
    v[3].snapshot = &other;
    pb_err_set(&v[2].err, PB_DENIED, "20: not permitted");
    round_trip(v, 4);
}

static void what_a_hostile_node_says(void **state)
{
    static const char *const texts[] = {
        "{\"pid\":1,\"parent\":null}\n{\"pid\":2,\"python\":\"3\"}\n",
        "{\"pid\":2,\"python\":\"3\"}\n{\"pid\":1,\"parent\":2}\n",
        "{\"parent\":1,\"pid\":1,\"python\":\"\\u001b[2J\",\"threads\":[{\"tid\":-9e99,"
        "\"state\":\"\",\"wait\":\"\\u001b]0;x\",\"elided\":1,\"frames\":[{\"depth\":-5,"
        "\"source\":\"x\",\"indentation\":99999999999,\"col_offset\":1073741824,"
        "\"end_col_offset\":-1},{\"depth\":7},3,null,[]]},4]}\n",
        "[]\n{}\n1\n\"x\"\nnull\n",
        "{\"pid\":5,\"python\":\"3\",\"threads\":{\"a\":1}}\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pb_print out = {.fd = -1, .width = 80};
        struct pb_arena a = PB_ARENA_INIT;
        struct pb_stack_process *v;
        struct pb_err err = {0};
        size_t n = 0;

        assert_int_equal(pb_stack_parse(texts[i], strlen(texts[i]), &a, &v, &n, &err), 0);
        if (n && v[0].family)
            pb_stack_tree_text(&out, v, n, true);
        for (size_t k = 0; k < n; k++)
            if (v[k].snapshot)
                pb_stack_text(&out, v[k].snapshot, &opts, true);
        assert_true(!out.buf.data || !strchr(out.buf.data, '\033'));
        pb_buf_finish(&out.buf);
        pb_arena_finish(&a);
    }
    {
        struct pb_arena a = PB_ARENA_INIT;
        struct pb_stack_process *v;
        struct pb_err err = {0};
        size_t n;

        assert_int_equal(pb_stack_parse("{\"pid\":", 7, &a, &v, &n, &err), -1);
        pb_arena_finish(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process),
        cmocka_unit_test(a_tree),
        cmocka_unit_test(what_a_hostile_node_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
