#include "pb_test.h"

#include <string.h>

#include "cli/profile/profile_trace.h"

/* An operation on the host around another one that launches a kernel, and one beside them. */
static const char text[] =
    "{\"deviceProperties\": [{\"name\": \"a } b\"}], \"traceEvents\": [\n"
    "{\"ph\": \"M\", \"name\": \"process_name\", \"ts\": 0, \"pid\": 1, \"tid\": 0},\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"inner\", \"pid\": 1, \"tid\": 5,\n"
    " \"ts\": 1200.5, \"dur\": 300, \"args\": {\"External id\": 7, \"Input Dims\": [[2, 3], []]\n"
    "}},\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"outer \\\"{\", \"pid\": 1, \"tid\": 5,\n"
    " \"ts\": 1000, \"dur\": 1000, \"args\": {\"External id\": 6}},\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"inner\", \"pid\": 1, \"tid\": 9,\n"
    " \"ts\": 1100, \"dur\": 100, \"args\": {\"Input Dims\": [[4]]}},\n"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7,\n"
    " \"ts\": 1500, \"dur\": 50, \"args\": {\"External id\": 7}},\n"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"stray\", \"pid\": 0, \"tid\": 7,\n"
    " \"ts\": 1600, \"dur\": 10, \"args\": {\"External id\": 99}},\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"backwards\", \"ts\": 5, \"dur\": -3},\n"
    "{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"all of it\", \"ts\": 0, \"dur\": 9000}\n"
    "], \"traceName\": \"x\"}\n";

static const struct pb_trace_op *find(const struct pb_trace_op *ops, size_t n, const char *name,
                                      const char *shapes)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(ops[i].name, name) == 0 &&
            (!shapes || strcmp(ops[i].shapes, shapes) == 0))
            return &ops[i];
    fail_msg("no operation %s %s", name, shapes ? shapes : "");
    return NULL;
}

static void check(const struct pb_trace_op *op, int64_t calls, double self_cpu, double cpu,
                  double self_device, double device)
{
    assert_int_equal(op->calls, calls);
    assert_true(op->self_cpu > self_cpu - 1e-9 && op->self_cpu < self_cpu + 1e-9);
    assert_true(op->cpu > cpu - 1e-9 && op->cpu < cpu + 1e-9);
    assert_true(op->self_device > self_device - 1e-9 && op->self_device < self_device + 1e-9);
    assert_true(op->device > device - 1e-9 && op->device < device + 1e-9);
}

/* Pieces of every size give the same sums. */
static void sums(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < sizeof text; piece = 3 * piece + 1) {
        struct pb_trace *t = pb_trace_create(false);
        const struct pb_trace_op *ops;
        size_t n;

        for (size_t at = 0; at < sizeof text - 1; at += piece)
            pb_trace_add(t, text + at, at + piece < sizeof text ? piece : sizeof text - 1 - at);
        assert_int_equal(pb_trace_events(t), 5);
        ops = pb_trace_ops(t, &n);
        assert_int_equal(n, 4);
        assert_string_equal(ops[0].name, "outer \"{"); /* the most time of its own */
        check(find(ops, n, "outer \"{", NULL), 1, 0.7, 1.0, 0, 0.05);
        check(find(ops, n, "inner", NULL), 2, 0.4, 0.4, 0.05, 0.05);
        check(find(ops, n, "gemm", NULL), 1, 0, 0, 0.05, 0.05);
        check(find(ops, n, "stray", NULL), 1, 0, 0, 0.01, 0.01);
        pb_trace_destroy(t);
    }
}

static void shapes(void **state)
{
    struct pb_trace *t = pb_trace_create(true);
    const struct pb_trace_op *ops;
    size_t n;

    (void)state;
    pb_trace_add(t, text, sizeof text - 1);
    ops = pb_trace_ops(t, &n);
    check(find(ops, n, "inner", "[[2, 3], []]"), 1, 0.3, 0.3, 0.05, 0.05);
    check(find(ops, n, "inner", "[[4]]"), 1, 0.1, 0.1, 0, 0);
    pb_trace_destroy(t);
}

static void nothing(void **state)
{
    static const char *const texts[] = {"", "]]]}}}", "{[{", "{\"a\":[{\"ph\":\"X\"}]}", "\"\\"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pb_trace *t = pb_trace_create(false);
        size_t n;

        pb_trace_add(t, texts[i], strlen(texts[i]));
        pb_trace_ops(t, &n);
        assert_int_equal(n, 0);
        pb_trace_destroy(t);
    }
    pb_trace_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(shapes),
        cmocka_unit_test(nothing),
    };

    return RUN_TESTS(tests);
}
